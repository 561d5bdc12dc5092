"""A device that is none: tensors stay in the processor's memory, and every operation checks where they pretend to be.

Inside of `pretended_device`, whatever is made on or moved to the device `meta` computes as usual, says that it is on
`meta`, and cannot be mixed with tensors of the processor, nor become a NumPy array, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten

DEVICE, CPU = torch.device("meta"), torch.device("cpu")
ops = torch.ops.aten
# As on a GPU: copies go anywhere, and what is indexed may be indexed by tensors of the processor.
CROSSING = {ops.copy_, ops._to_copy, ops._foreach_copy_, ops.index, ops.index_put, ops.index_put_, ops._index_put_impl_}


class Places:
    """Which storages pretend to be on the device. Weak references keep their identities from being used again."""

    def __init__(self) -> None:
        self._there: dict[int, StorageWeakRef] = {}

    def put(self, tensor: torch.Tensor, *, there: bool) -> None:
        reference = StorageWeakRef(tensor.untyped_storage())
        if there:
            self._there[reference.cdata] = reference
        else:
            self._there.pop(reference.cdata, None)

    def is_there(self, tensor: torch.Tensor) -> bool:
        return StorageWeakRef(tensor.untyped_storage()).cdata in self._there


class Operations(TorchDispatchMode):
    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places = places

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        there = [self.places.is_there(one) for one in given]
        packet = function.overloadpacket
        mixed = [is_there for is_there, one in zip(there, given, strict=True) if is_there or one.dim()]
        if len(set(mixed)) > 1 and packet not in CROSSING:
            raise RuntimeError(f"Expected all tensors to be on the same device: {function} got both")
        wanted = kwargs.get("device")
        if wanted is not None:
            kwargs["device"] = CPU
        made_there = torch.device(wanted) == DEVICE if wanted is not None else any(there)
        known = {StorageWeakRef(one.untyped_storage()).cdata for one in given}
        result = function(*args, **kwargs)
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, torch.Tensor) and StorageWeakRef(leaf.untyped_storage()).cdata not in known:
                self.places.put(leaf, there=made_there)
        return result


class Functions(TorchFunctionMode):
    """What asks for the place of a tensor, and what is decided by it before any operation."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places = places

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
        is_there = tensor is not None and self.places.is_there(tensor)
        if function == torch.Tensor.device.__get__:
            return DEVICE if is_there else CPU
        if function == torch.Tensor.is_cpu.__get__:
            return not is_there
        if function in (torch.Tensor.numpy, torch.Tensor.__array__) and is_there:
            raise TypeError("can't convert a tensor of the device to numpy. Use Tensor.cpu() first.")
        if function is torch.Tensor.cpu:
            return self._moved(tensor, CPU)
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            place = torch.device(kwargs["device"])
            return self._moved(function(*args, **{**kwargs, "device": CPU}), place)
        if function is torch.Tensor.quantile:
            return self._at_once(function, *args)
        if function is torch.Tensor.to:
            return self._to(function, args, kwargs)
        return function(*args, **kwargs)

    def _to(self, function, args, kwargs):
        tensor, *rest = args
        others = [one for one in rest if isinstance(one, torch.Tensor)]
        named = [one for one in (*rest, kwargs.get("device")) if isinstance(one, torch.device | str)]
        place = self._place(others[0]) if others else torch.device(named[0]) if named else self._place(tensor)
        types = [one for one in (*rest, kwargs.get("dtype")) if isinstance(one, torch.dtype)]
        dtype = others[0].dtype if others else types[0] if types else tensor.dtype
        changed = tensor if tensor.dtype == dtype else function(tensor, dtype)
        return self._moved(changed, place)

    def _at_once(self, function, *tensors):
        """An operation made of others, which makes tensors on the true device in between."""
        places = {self._place(one) for one in tensors}
        assert len(places) == 1, f"{function} got tensors of several devices"
        with _disable_current_modes():
            result = function(*tensors)
        self.places.put(result, there=places == {DEVICE})
        return result

    def _place(self, tensor):
        return DEVICE if self.places.is_there(tensor) else CPU

    def _moved(self, tensor, place):
        if self._place(tensor) == place:
            return tensor
        moved = ops._to_copy.default(tensor) if not tensor.requires_grad else tensor.clone()
        self.places.put(moved, there=place == DEVICE)
        return moved


@contextmanager
def pretended_device() -> Iterator[str]:
    """Gives the name of the device."""
    places = Places()
    with Operations(places), Functions(places):
        yield str(DEVICE)
