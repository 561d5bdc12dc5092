"""What TMRL's policies read: the parts of an observation in the order of its tuples, for each of its interfaces."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

BEAMS = 19
LIDAR = "rays"  # the part's name here
IMAGES = "images"
LAST_ACTIONS = "last_actions"
# What TMRL's preprocessor divides by; the lidar's numbers stay as they are.
FULL_SPEED = 1_000.0  # the upper bound of the speed in TMRL's numbers
SCALES = {"speed": 1_000.0, "gear": 10.0, "rpm": 10_000.0, IMAGES: 256.0}


@dataclass(frozen=True)
class Layout:
    """interface: full, lidar or lidar_progress. history: pictures or lidars, oldest first. last_actions: actions in the
    buffer, oldest first. image: height and width."""

    interface: str = "full"
    history: int = 4
    last_actions: int = 2
    image: tuple[int, int] = (64, 64)
    action_size: int = 3

    @property
    def has_images(self) -> bool:
        return self.interface == "full"

    @property
    def parts(self) -> list[str]:
        """Names in TMRL's order."""
        between = {"full": ["gear", "rpm", IMAGES], "lidar": [LIDAR], "lidar_progress": ["progress", LIDAR]}
        return ["speed", *between[self.interface], *([LAST_ACTIONS] if self.last_actions else [])]

    @property
    def scales(self) -> dict[str, float]:
        """What TMRL divides the parts by before its policies read them."""
        return {name: SCALES[name] for name in self.parts if name in SCALES} if self.has_images else {}

    def spec(self) -> Spec:
        """TMRL's spaces, with the action buffer as one part."""
        known = {
            "speed": _number(0.0, FULL_SPEED),
            "gear": _number(0.0, 6.0),
            "rpm": _number(0.0, None),
            "progress": _number(0.0, 1.0),
            IMAGES: ArraySpec(shape=(self.history, *self.image), dtype="uint8", low=0.0, high=255.0),
            LIDAR: ArraySpec(shape=(self.history, BEAMS), dtype="float32", low=0.0),
            LAST_ACTIONS: ArraySpec(shape=(self.last_actions * self.action_size,), dtype="float32", low=-1.0, high=1.0),
        }
        action = ArraySpec(shape=(self.action_size,), dtype="float32", low=-1.0, high=1.0)
        return Spec(observation={name: known[name] for name in sorted(self.parts)}, action=action, is_dict=True)

    @property
    def numbers(self) -> int:
        """Numbers in an observation that are no picture."""
        return sum(part.size for name, part in self.spec().observation.items() if name != IMAGES)


def _number(low: float, high: float | None) -> ArraySpec:
    return ArraySpec(shape=(1,), dtype="float32", low=low, high=high)


def lidar_layout(inputs: int, action_size: int, told: Layout | None) -> Layout:
    """The layout of a perceptron with so many inputs; `told` is what a config.json says."""
    guesses = [Layout(kind, 4, length, action_size=action_size) for length in (2, 1, 0, 3, 4)
               for kind in ("lidar", "lidar_progress")]  # fmt: skip
    candidates = guesses if told is None or told.has_images else [told]
    for layout in candidates:
        if layout.numbers == inputs:
            return layout
    said = f" The config.json beside it describes {told.numbers} inputs." if told is not None else ""
    raise InputError(f"no interface of TMRL gives the {inputs} inputs that this policy reads.{said}")
