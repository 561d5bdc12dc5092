"""The body of a car seen from above, for every picture of it.

Outlines in shares of the car's length (x, forward) and width (y, left), centred.
"""

from __future__ import annotations

Outline = tuple[tuple[float, float], ...]

BODY: Outline = (
    (-0.49, -0.44), (-0.49, 0.44), (-0.30, 0.47), (-0.05, 0.43), (0.20, 0.46), (0.40, 0.42), (0.48, 0.26),
    (0.50, 0.0), (0.48, -0.26), (0.40, -0.42), (0.20, -0.46), (-0.05, -0.43), (-0.30, -0.47),
)  # fmt: skip
CABIN: Outline = (
    (-0.26, -0.32), (-0.26, 0.32), (0.12, 0.37), (0.19, 0.20), (0.20, 0.0), (0.19, -0.20), (0.12, -0.37),
)  # fmt: skip
ROOF: Outline = ((-0.17, -0.26), (-0.17, 0.26), (0.03, 0.28), (0.03, -0.28))
STRIPE: Outline = ((-0.49, -0.09), (-0.49, 0.09), (0.50, 0.07), (0.50, -0.07))
WING: Outline = ((-0.50, -0.49), (-0.50, 0.49), (-0.43, 0.49), (-0.43, -0.49))
LAMPS: tuple[Outline, ...] = tuple(
    ((0.41, side * 0.24), (0.46, side * 0.20), (0.43, side * 0.38), (0.40, side * 0.40)) for side in (-1, 1)
)
WHEELS: Outline = ((0.31, 0.44), (0.31, -0.44), (-0.31, 0.45), (-0.31, -0.45))  # their centres
WHEEL_SIZE = (0.15, 0.17)


def drawn_outline() -> dict[str, object]:
    """Every outline by name, as a scene sends it."""
    return {
        "body": BODY, "cabin": CABIN, "roof": ROOF, "stripe": STRIPE, "wing": WING, "lamps": LAMPS,
        "wheels": WHEELS, "wheel_size": WHEEL_SIZE,
    }  # fmt: skip
