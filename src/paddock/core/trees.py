"""Nested dicts and lists of arrays: mapping over them, and files of them without pickle.

A saved tree is two files: `<name>.json` for structure and scalars, `<name>.safetensors` for arrays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from paddock.core.files import write_synced
from paddock.core.reading import read_bytes, read_json

Tree = Any
_ARRAY = "__array__"
# NumPy's names for the types in a safetensors file.
DTYPES = {
    **{f"F{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    **{f"I{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    "BOOL": np.dtype(bool),
}


def map_tree(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The same structure with `function` applied to every leaf."""
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [map_tree(function, value) for value in tree]
    return function(tree)


def save_tree(folder: Path, name: str, tree: Tree) -> list[Path]:
    """Write a tree of dicts (string keys), lists, scalars, NumPy arrays and torch tensors. Returns the files."""
    arrays: dict[str, np.ndarray] = {}
    structure = _encode(tree, arrays)
    json_file, array_file = folder / f"{name}.json", folder / f"{name}.safetensors"
    write_synced(json_file, json.dumps(structure).encode())
    write_synced(array_file, safetensors_numpy.save(arrays))
    return [json_file, array_file]


def load_tree(folder: Path, name: str, *, limit: int | None = None) -> Tree:
    """Read what `save_tree` wrote; arrays come back as the kind (NumPy or torch) that was saved.

    limit: bytes of the arrays, for files from elsewhere: they then have to be regular files within the limits of
    `core.reading`.
    """
    json_file, array_file = folder / f"{name}.json", folder / f"{name}.safetensors"
    structure = json.loads(json_file.read_bytes()) if limit is None else read_json(json_file)
    content = array_file.read_bytes() if limit is None else read_bytes(array_file, limit=limit)
    try:
        arrays = safetensors_numpy.load(content)
    except SafetensorError as error:
        raise ValueError(f"'{folder / name}.safetensors' cannot be read: {error}") from error
    return _decode(structure, arrays)


def pack_tree(tree: Tree) -> bytes:
    """A tree as bytes, for `unpack_tree`: its structure's length, the structure, the arrays."""
    arrays: dict[str, np.ndarray] = {}
    structure = json.dumps(_encode(tree, arrays)).encode()
    return b"".join([len(structure).to_bytes(8, "little"), structure, safetensors_numpy.save(arrays)])


def unpack_tree(packed: bytes | memoryview) -> Tree:
    """The tree that `pack_tree` was given."""
    start = 8 + int.from_bytes(packed[:8], "little")
    return _decode(json.loads(bytes(packed[8:start])), safetensors_numpy.load(bytes(packed[start:])))


def open_tree(folder: Path, name: str) -> Tree:
    """Like `load_tree` for NumPy arrays, but mapped from the file: what is not looked at is not read."""
    file = folder / f"{name}.safetensors"
    structure = json.loads((folder / f"{name}.json").read_bytes())
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(size))
    header.pop("__metadata__", None)
    arrays = {key: _mapped(file, 8 + size, entry) for key, entry in header.items()}
    return _decode(structure, arrays, copy=False)


def _mapped(file: Path, data_start: int, entry: dict[str, Any]) -> np.ndarray:
    dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(file, dtype, "r", data_start + entry["data_offsets"][0], shape)


def _encode(leaf: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(leaf, dict):
        if _ARRAY in leaf:
            raise ValueError(f"'{_ARRAY}' cannot be a key in a saved tree")
        return {key: _encode(value, arrays) for key, value in leaf.items()}
    if isinstance(leaf, list | tuple):
        return [_encode(value, arrays) for value in leaf]
    key = str(len(arrays))
    if _is_tensor(leaf):
        arrays[key], dtype = _tensor_to_numpy(leaf)
        return {_ARRAY: key, "torch": dtype}
    if isinstance(leaf, np.ndarray):
        arrays[key] = np.ascontiguousarray(leaf)
        # A zero-dimensional array becomes one-dimensional above.
        return {_ARRAY: key, "shape": list(leaf.shape)}
    if isinstance(leaf, np.generic):
        return leaf.item()
    if leaf is None or isinstance(leaf, bool | int | float | str):
        return leaf
    raise TypeError(f"a tree holds scalars, strings and arrays, not {type(leaf).__name__}")


def _decode(node: Any, arrays: dict[str, np.ndarray], copy: bool = True) -> Any:
    if isinstance(node, list):
        return [_decode(value, arrays, copy) for value in node]
    if not isinstance(node, dict):
        return node
    if _ARRAY not in node:
        return {key: _decode(value, arrays, copy) for key, value in node.items()}
    array = arrays[node[_ARRAY]]
    if "torch" in node:
        return _numpy_to_tensor(array, node["torch"])
    shaped = array.reshape(node["shape"])
    return shaped.copy() if copy else shaped


def _is_tensor(leaf: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def _tensor_to_numpy(tensor: Any) -> tuple[np.ndarray, dict[str, Any]]:
    import torch

    tensor = tensor.detach().cpu().contiguous()
    description = {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type; keep the bits.
        tensor = tensor.view(torch.int16)
    return np.ascontiguousarray(tensor.numpy()), description


def _numpy_to_tensor(array: np.ndarray, description: dict[str, Any]) -> Any:
    import torch

    tensor = torch.from_numpy(array.copy())
    if description["dtype"] == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    return tensor.reshape(description["shape"])
