"""TMRL's `.tcpt`, the pickle of a whole training: its weights and counters, out of objects that are never made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from paddock.core.errors import InputError
from paddock.core.reading import DamagedError, read_bytes
from paddock.tmrl.arrays import NUMPY_CALLS, STORAGE_NAMES, TENSOR_CALLS, Storage
from paddock.tmrl.pickles import Holder, RefusedPickleError, Rules, read_pickle
from paddock.tmrl.torch_files import read_stream

LARGEST_FILE = 4 * 2**30  # bytes; the replay memory is in the file
MOST_OPCODES = 50_000_000
DEEPEST = 64  # modules in modules
COUNTERS = ("epoch", "epochs", "rounds", "steps", "total_updates", "total_samples")
# Objects of these classes become Holders. None of them is imported.
INERT = (
    "tmrl.",
    "torch.nn.", "torch.optim.", "torch.device", "torch.Size", "torch.float32", "torch.float64", "torch.strided",
    "gymnasium.spaces.", "gym.spaces.", "numpy.random.", "numpy.float32", "numpy.float64", "numpy.uint8",
    "numpy.int64", "numpy.bool_", "collections.defaultdict", "collections.deque", "builtins.dict", "builtins.list",
    "builtins.set", "builtins.tuple", "builtins.object", "copyreg._reconstructor", "functools.partial",
    "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePosixPath", "pathlib.PureWindowsPath",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingState:
    """What was found in a `.tcpt`. networks: weights of the agent's modules, by name (`actor`, `q1`)."""

    counters: dict[str, int]
    networks: dict[str, dict[str, Tensor]]
    log_alpha: float | None
    samples: int


def read_checkpoint(path: Path, packages: tuple[str, ...] = ()) -> TrainingState:
    """The weights and counters of a `.tcpt`. packages: of the person's own; their objects are read as data, too."""
    data = read_bytes(path, limit=LARGEST_FILE)
    try:
        root = read_pickle(data, checkpoint_rules(packages), most_opcodes=MOST_OPCODES)
        return _found(root, path)
    except RefusedPickleError as error:
        raise DamagedError(path, str(error)) from error


def checkpoint_rules(packages: tuple[str, ...] = ()) -> Rules:
    """What a training may name."""
    calls = {**NUMPY_CALLS, **TENSOR_CALLS, "torch.storage._load_from_bytes": _storage}
    inert = (*INERT, *(f"{package}." for package in packages))
    return Rules(calls, STORAGE_NAMES | {"numpy.ndarray"}, inert, purpose="a checkpoint of TMRL's own classes")


def _storage(data: Any) -> Storage:
    found = read_stream(data) if isinstance(data, bytes) else None
    if not isinstance(found, Storage):
        raise RefusedPickleError("it has a storage without numbers")
    return found


def _found(root: Any, path: Path) -> TrainingState:
    agent = root.attributes.get("agent") if isinstance(root, Holder) else None
    model = agent.attributes.get("model") if isinstance(agent, Holder) else None
    networks = _networks(model)
    if not isinstance(root, Holder) or not isinstance(agent, Holder) or "actor" not in networks:
        raise InputError(f"'{path}' has no agent.model.actor, so it is not a checkpoint of TMRL's SAC or REDQ.")
    counted = {name: root.attributes.get(name) for name in COUNTERS}
    memory = root.attributes.get("memory")
    data = memory.attributes.get("data") if isinstance(memory, Holder) else None
    columns = data if isinstance(data, list) else []
    return TrainingState(
        counters={name: value for name, value in counted.items() if type(value) is int},
        networks=networks,
        log_alpha=_log_alpha(agent),
        samples=len(columns[0]) if columns and isinstance(columns[0], list) else 0,
    )


def _networks(model: Any) -> dict[str, dict[str, Tensor]]:
    """The weights of each module directly below a module; those of a list of modules as `qs.0`, `qs.1`, ..."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, module in _modules(model).items():
        if module.name.endswith("ModuleList"):
            found |= {f"{name}.{number}": module_weights(one) for number, one in _modules(module).items()}
        else:
            found[name] = module_weights(module)
    return found


def _modules(module: Any) -> dict[str, Holder]:
    inner = module.attributes.get("_modules") if isinstance(module, Holder) else None
    entries = inner.items() if isinstance(inner, dict) else ()
    return {str(name): one for name, one in entries if isinstance(one, Holder)}


def module_weights(module: Holder) -> dict[str, Tensor]:
    """What `state_dict` of the module would give."""
    found: dict[str, Tensor] = {}
    level = [("", module)]
    for _ in range(DEEPEST):
        following = []
        for prefix, one in level:
            for kind in ("_parameters", "_buffers"):
                tensors = one.attributes.get(kind)
                if isinstance(tensors, dict):
                    found |= {f"{prefix}{name}": value for name, value in tensors.items() if isinstance(value, Tensor)}
            following += [(f"{prefix}{name}.", inner) for name, inner in _modules(one).items()]
        level = following
    return found


def _log_alpha(agent: Holder) -> float | None:
    """The logarithm of the temperature, learned or fixed."""
    learned, fixed = agent.attributes.get("log_alpha"), agent.attributes.get("alpha_t")
    if isinstance(learned, Tensor) and learned.numel() == 1:
        return float(learned)
    return float(fixed.log()) if isinstance(fixed, Tensor) and fixed.numel() == 1 else None
