"""Components that begin with the weights that another run left: of its saved policy, which holds nothing but arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from paddock.core.errors import InputError
from paddock.orchestration.policies import BEST, LATEST

WEIGHTS = "policy.safetensors"


def load_initial_weights(sources: Mapping[str, str], components: Mapping[str, nn.Module]) -> None:
    """Put the weights of each named component in place, from a run's folder (its latest policy) or a policy's."""
    for name, source in sources.items():
        file = weights_file(Path(source))
        found = component_weights(file, name)
        try:
            components[name].load_state_dict(found)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise InputError(
                f"initial_weights.{name} = {source}: the weights there are of another network: {reason} "
                "Take the sizes of the run that they come from."
            ) from error


def weights_file(folder: Path) -> Path:
    """Where a run's or a policy's folder holds its weights."""
    places = [folder, folder / "policy" / LATEST, folder / "policy" / BEST]
    for place in places:
        if (place / WEIGHTS).is_file():
            return place / WEIGHTS
    raise InputError(f"initial_weights: '{folder}' is neither a run with a saved policy nor a policy's folder.")


def component_weights(file: Path, name: str) -> dict[str, Tensor]:
    """The tensors of one component of a saved policy, by their names in the component."""
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise InputError(f"initial_weights: '{file}' cannot be read: {error}") from error
    prefix = f"parts.{name}."
    found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    if not found:
        there = sorted({key.split(".")[1] for key in tensors if key.startswith("parts.")})
        raise InputError(f"initial_weights: '{file}' has no component '{name}'. It has: {', '.join(there)}.")
    return found
