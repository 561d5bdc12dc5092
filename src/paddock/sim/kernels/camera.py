"""The camera: flat-shaded polygons of the road, obstacles and cars, drawn straight into each car's picture.

Points are (forward, left, up) m from the foot of the camera, in its heading. The road is drawn from the ribbon of
edges, piece by piece, so there is no map in memory and edges are sharp at any distance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.sim import layout as L
from paddock.sim.cars.car import PARAMETER_INDEX
from paddock.sim.kernels.compile import inline, kernel, part
from paddock.sim.kernels.launch import DONE, TAKEN, add_atomically
from paddock.sim.kernels.math import cosine, random_normal, random_uniform, sine
from paddock.sim.kernels.records import Bytes, Camera, Canvas, Cars, Doubles, Orders, Roads, Rules, Singles
from paddock.sim.kernels.road import frame_at, place_at
from paddock.sim.kernels.sensors import along_lap, repeat, shift

LENGTH = PARAMETER_INDEX["length"]
WIDTH = PARAMETER_INDEX["width"]

# Rows of the palette, uint8 [10, channels].
SKY, GRASS, EDGE_LINE, ROAD, MARKING, OBSTACLE, OBSTACLE_BAND, CAR_SIDE, CAR_TOP, OWN_CAR = range(10)

# The lens, float64 [12]: picture size, pixels per unit of slope (or per m, from above), image centre, and the mount.
(
    LENS_WIDTH, LENS_HEIGHT, LENS_SCALE, LENS_CENTRE_X, LENS_CENTRE_Y, LENS_COS, LENS_SIN, LENS_MOUNT_HEIGHT,
    LENS_MOUNT, LENS_RANGE, LENS_ABOVE, LENS_CHANNELS,
) = range(12)  # fmt: skip
NEAR = 0.05  # of the mount height: nothing nearer to the lens is drawn
LINE_SHARE = 0.03  # of the road's width; at least a pixel from above
MOST_POINTS = 8  # of a polygon after clipping


@inline
def depth_of(point: Any, lens: Doubles) -> float:
    """Distance along the optical axis; from above every point is equally far."""
    if lens[LENS_ABOVE] > 0.0:
        return 1.0
    return point[0] * lens[LENS_COS] + (lens[LENS_MOUNT_HEIGHT] - point[2]) * lens[LENS_SIN]


@part
def project(points: Doubles, count: int, lens: Doubles, clipped: Doubles, screen: Doubles) -> int:
    """Clip a polygon [count, 3] at the near plane and project it into `screen` [., 2] pixels; its number of points."""
    near = NEAR * lens[LENS_MOUNT_HEIGHT]
    kept = 0
    for i in range(count):
        j = i + 1 if i + 1 < count else 0
        here, there = depth_of(points[i], lens), depth_of(points[j], lens)
        if here >= near:
            for axis in range(3):
                clipped[kept, axis] = points[i, axis]
            kept += 1
        if (here >= near) != (there >= near):
            share = (near - here) / (there - here)
            for axis in range(3):
                clipped[kept, axis] = points[i, axis] + share * (points[j, axis] - points[i, axis])
            kept += 1
    for i in range(kept):
        if lens[LENS_ABOVE] > 0.0:
            screen[i, 0] = lens[LENS_CENTRE_X] - clipped[i, 1] * lens[LENS_SCALE]
            screen[i, 1] = lens[LENS_CENTRE_Y] - clipped[i, 0] * lens[LENS_SCALE]
        else:
            scale = lens[LENS_SCALE] / depth_of(clipped[i], lens)
            down = (lens[LENS_MOUNT_HEIGHT] - clipped[i, 2]) * lens[LENS_COS] - clipped[i, 0] * lens[LENS_SIN]
            screen[i, 0] = lens[LENS_CENTRE_X] - clipped[i, 1] * scale
            screen[i, 1] = lens[LENS_CENTRE_Y] + down * scale
    return kept


@part
def fill(screen: Doubles, count: int, lens: Doubles, colour: Bytes, image: Bytes) -> None:
    """Fill a convex polygon of `count` points; a pixel belongs to it when its centre does. `image` is flat."""
    width, channels = int(lens[LENS_WIDTH]), int(lens[LENS_CHANNELS])
    top, bottom, leftmost, rightmost = screen[0, 1], screen[0, 1], screen[0, 0], screen[0, 0]
    for i in range(1, count):
        top, bottom = min(top, screen[i, 1]), max(bottom, screen[i, 1])
        leftmost, rightmost = min(leftmost, screen[i, 0]), max(rightmost, screen[i, 0])
    if rightmost < 0.0 or leftmost > width:
        return
    first = max(math.ceil(max(top, 0.0) - 0.5), 0)
    last = min(math.ceil(min(bottom, lens[LENS_HEIGHT]) - 0.5), int(lens[LENS_HEIGHT]))
    for row in range(first, last):
        y = row + 0.5
        left, right = 1e9, -1e9
        for i in range(count):
            j = i + 1 if i + 1 < count else 0
            y0, y1 = screen[i, 1], screen[j, 1]
            if (y0 <= y) != (y1 <= y):
                x = screen[i, 0] + (y - y0) / (y1 - y0) * (screen[j, 0] - screen[i, 0])
                left, right = min(left, x), max(right, x)
        start = math.ceil(min(max(left, 0.0), width) - 0.5)
        stop = math.ceil(min(max(right, 0.0), width) - 0.5)
        base = row * width
        if channels == 3:
            for at in range(3 * (base + start), 3 * (base + stop), 3):
                image[at], image[at + 1], image[at + 2] = colour[0], colour[1], colour[2]
        else:
            for at in range(base + start, base + stop):
                image[at] = colour[0]


@part
def draw_polygon(
    points: Doubles, count: int, lens: Doubles, colour: Bytes, image: Bytes, clipped: Doubles, screen: Doubles
) -> None:
    """Project and fill one polygon [count, 3]."""
    kept = project(points, count, lens, clipped, screen)
    if kept >= 3:
        fill(screen, kept, lens, colour, image)


@inline
def draw_points(count: int, colour: int, canvas: Canvas) -> None:
    """Draw the polygon in the first `count` points of the canvas in a colour of its palette."""
    draw_polygon(canvas.points, count, canvas.lens, canvas.palette[colour], canvas.image, canvas.clipped, canvas.screen)


@inline
def set_point(points: Doubles, i: int, forward: float, left: float, up: float) -> None:
    points[i, 0], points[i, 1], points[i, 2] = forward, left, up


@part
def draw_road(x: float, y: float, cos: float, sin: float, track: Doubles, ribbon: Singles, canvas: Canvas) -> None:
    """Every piece of the track within range: its edge lines, and the asphalt between them."""
    lens, points = canvas.lens, canvas.points
    first, nodes = int(track[L.TRACK_FIRST_NODE]), int(track[L.TRACK_NODES])
    reach = lens[LENS_RANGE]
    above = lens[LENS_ABOVE] > 0.0
    behind = -reach if above else 0.0
    for node in range(nodes):
        a = first + node
        b = first + (node + 1 if node + 1 < nodes else 0)
        near_x, near_y = ribbon[a, 0] - x, ribbon[a, 1] - y
        far_x, far_y = ribbon[b, 0] - x, ribbon[b, 1] - y
        near_f, far_f = near_x * cos + near_y * sin, far_x * cos + far_y * sin
        span = 2.0 * (abs(far_x - near_x) + abs(far_y - near_y))
        road = abs(ribbon[a, 0] - ribbon[a, 2]) + abs(ribbon[a, 1] - ribbon[a, 3])
        if max(near_f, far_f) < behind - road or near_x * near_x + near_y * near_y > (reach + span) ** 2:
            continue
        line = max(LINE_SHARE, 1.2 / (lens[LENS_SCALE] * road)) if above else LINE_SHARE
        for layer in range(2):
            inset = 0.0 if layer == 0 else line
            for corner in range(4):
                row = a if corner in (0, 3) else b
                left_side = corner < 2
                share = inset if left_side else 1.0 - inset
                px = ribbon[row, 0] + share * (ribbon[row, 2] - ribbon[row, 0]) - x
                py = ribbon[row, 1] + share * (ribbon[row, 3] - ribbon[row, 1]) - y
                set_point(points, corner, px * cos + py * sin, py * cos - px * sin, 0.0)
            draw_points(4, EDGE_LINE + layer, canvas)


@part
def draw_markings(
    x: float, y: float, cos: float, sin: float, s: float, track: Doubles, roads: Roads, canvas: Canvas
) -> None:
    """The dashes of the centre line, a dash per road width, which show speed; and the start line."""
    lens, ribbon = canvas.lens, roads.ribbon
    first, count = int(track[L.TRACK_FIRST_POINT]), int(track[L.TRACK_POINTS])
    node = int(track[L.TRACK_FIRST_NODE])
    width = math.hypot(ribbon[node, 0] - ribbon[node, 2], ribbon[node, 1] - ribbon[node, 3])
    length, spacing = track[L.TRACK_LENGTH], track[L.TRACK_SPACING]
    dashes = max(int(length / width), 1)
    period = length / dashes
    reach = min(0.5 * lens[LENS_RANGE], 0.45 * length)
    start = math.floor((s - (reach if lens[LENS_ABOVE] > 0.0 else 0.0)) / period)
    for dash in range(start, math.ceil((s + reach) / period)):
        at_line = dash % dashes == 0
        half = 0.48 * width if at_line else 0.012 * width
        long = (0.08 if at_line else 0.35) * period
        for end in range(2):
            index, fraction = place_at(dash * period + end * long, length, spacing, count)
            px, py, tx, ty = frame_at(roads.points, first, count, index, fraction)
            for side in range(2):
                offset = half if side == end else -half
                dx, dy = px - offset * ty - x, py + offset * tx - y
                set_point(canvas.points, 2 * end + side, dx * cos + dy * sin, dy * cos - dx * sin, 0.0)
        draw_points(4, MARKING, canvas)


@part
def draw_post(forward: float, left: float, radius: float, canvas: Canvas) -> None:
    """A round obstacle: an upright panel with a band, or a disc from above."""
    points = canvas.points
    if canvas.lens[LENS_ABOVE] > 0.0:
        for i in range(MOST_POINTS - 2):
            angle = 2.0 * math.pi * i / (MOST_POINTS - 2)
            set_point(points, i, forward + radius * math.cos(angle), left + radius * math.sin(angle), 0.0)
        draw_points(MOST_POINTS - 2, OBSTACLE, canvas)
        return
    for layer in range(2):
        low, high = (0.0, 2.0 * radius) if layer == 0 else (0.8 * radius, 1.3 * radius)
        set_point(points, 0, forward, left + radius, low)
        set_point(points, 1, forward, left - radius, low)
        set_point(points, 2, forward, left - radius, high)
        set_point(points, 3, forward, left + radius, high)
        draw_points(4, OBSTACLE + layer, canvas)


@part
def draw_body(
    forward: float, left: float, turn: float, length: float, width: float, side: Bytes, top: Bytes, canvas: Canvas
) -> None:
    """Another car: a box half as high as it is wide; only faces turned to the lens are drawn."""
    points, screen = canvas.points, canvas.screen
    cos, sin = math.cos(turn), math.sin(turn)
    height = 0.5 * width
    for face in range(5):
        for i in range(4):
            corner = (face + (1 if i in (1, 2) else 0)) % 4 if face < 4 else i
            fx = 0.5 * length if corner in (0, 3) else -0.5 * length
            fy = 0.5 * width if corner < 2 else -0.5 * width
            up = height if face == 4 or i >= 2 else 0.0
            set_point(points, i, forward + fx * cos - fy * sin, left + fx * sin + fy * cos, up)
        kept = project(points, 4, canvas.lens, canvas.clipped, screen)
        area = 0.0
        for i in range(kept):
            j = i + 1 if i + 1 < kept else 0
            area += screen[i, 0] * screen[j, 1] - screen[j, 0] * screen[i, 1]
        if kept >= 3 and (face == 4 or area < 0.0):
            fill(screen, kept, canvas.lens, top if face == 4 else side, canvas.image)


@part
def draw_things(
    n: int, group: int, x: float, y: float, cos: float, sin: float,
    track: Doubles, obstacles: Singles, cars: Cars, canvas: Canvas,
) -> None:  # fmt: skip
    """Obstacles and the other cars of the group, the farthest first."""
    parameters, doubles, singles = cars.parameters, cars.doubles, cars.singles
    start = int(track[L.TRACK_FIRST_OBSTACLE])
    posts = int(track[L.TRACK_OBSTACLES])
    leader = n - n % group
    reach, length = canvas.lens[LENS_RANGE], track[L.TRACK_LENGTH]
    ceiling = 1e18
    for _ in range(posts + group - 1):
        chosen, farthest = -1, -1.0
        for item in range(posts + group):
            other = leader + item - posts
            if item >= posts and other == n:
                continue
            px = obstacles[start + item, 0] if item < posts else doubles[L.X, other]
            py = obstacles[start + item, 1] if item < posts else doubles[L.Y, other]
            place = obstacles[start + item, 3] if item < posts else doubles[L.S, other]
            away = (px - x) ** 2 + (py - y) ** 2
            apart = abs(along_lap(place - doubles[L.S, n], length))
            if away < reach * reach and apart < 1.5 * reach + 50.0 and farthest < away < ceiling:
                chosen, farthest = item, away
        if chosen < 0:
            return
        ceiling = farthest
        other = leader + chosen - posts
        px = obstacles[start + chosen, 0] if chosen < posts else doubles[L.X, other]
        py = obstacles[start + chosen, 1] if chosen < posts else doubles[L.Y, other]
        forward, left = (px - x) * cos + (py - y) * sin, (py - y) * cos - (px - x) * sin
        if chosen < posts:
            draw_post(forward, left, obstacles[start + chosen, 2], canvas)
        else:
            turn = singles[L.HEADING, other] - singles[L.HEADING, n]
            draw_body(
                forward, left, turn, parameters[other, LENGTH], parameters[other, WIDTH],
                canvas.palette[CAR_SIDE], canvas.palette[CAR_TOP], canvas,
            )  # fmt: skip


@part
def disturb_picture(image: Bytes, noise: float, seed: int, n: int, episode: int, step: int) -> None:
    """Add noise of `noise` grey levels."""
    for k in range(image.shape[0]):
        value = float(image[k]) + noise * random_normal(seed, n, episode, step, L.DRAW_CAMERA, k + 1)
        image[k] = np.uint8(min(max(value + 0.5, 0.0), 255.0))


@part
def draw_picture(n: int, group: int, cars: Cars, roads: Roads, canvas: Canvas) -> None:
    """The road, its markings, the obstacles and the cars around car `n`."""
    doubles, lens = cars.doubles, canvas.lens
    track = roads.tracks[cars.integers[L.TRACK, n]]
    cos, sin = cosine(cars.singles[L.HEADING, n]), sine(cars.singles[L.HEADING, n])
    x, y = doubles[L.X, n] + lens[LENS_MOUNT] * cos, doubles[L.Y, n] + lens[LENS_MOUNT] * sin
    draw_road(x, y, cos, sin, track, roads.ribbon, canvas)
    draw_markings(x, y, cos, sin, doubles[L.S, n], track, roads, canvas)
    draw_things(n, group, x, y, cos, sin, track, roads.obstacles, cars, canvas)
    if lens[LENS_ABOVE] > 0.0:
        own = canvas.palette[OWN_CAR]
        draw_body(0.0, 0.0, 0.0, cars.parameters[n, LENGTH], cars.parameters[n, WIDTH], own, own, canvas)


@part
def take_picture(
    n: int, fresh: bool, rules: Rules, cars: Cars, roads: Roads, camera: Camera,
    points: Doubles, clipped: Doubles, screen: Doubles,
) -> None:  # fmt: skip
    """The picture that car `n` sees now; `fresh` at the start of an episode."""
    options, integers, pictures = rules.options, cars.integers, camera.pictures
    seed, episode, step = options[L.OPTION_SEED], np.int64(integers[L.EPISODE, n]), np.int64(integers[L.STEPS, n])
    if not fresh:
        shift(pictures, n)
    lost = random_uniform(seed, n, episode, step, L.DRAW_CAMERA, L.ITEM_0) < camera.dropout
    if lost and not fresh:
        return
    image = pictures[n, 0]
    for k in range(camera.backdrop.shape[0]):
        image[k] = camera.backdrop[k]
    canvas = Canvas(camera.lens, camera.palette, image, points, clipped, screen)
    draw_picture(n, options[L.OPTION_GROUP], cars, roads, canvas)
    if camera.noise > 0.0:
        disturb_picture(image, camera.noise, seed, n, episode, step)
    if fresh:
        repeat(pictures, n)


@kernel()
def photograph(
    progress: Any, chunk: int, count: int, orders: Orders, rules: Rules, cars: Cars, roads: Roads, camera: Camera
) -> None:
    """One picture for each car into `camera.pictures`; see `launch`."""
    modes = orders.modes
    points, clipped = np.empty((MOST_POINTS, 3)), np.empty((MOST_POINTS, 3))
    screen = np.empty((MOST_POINTS, 2))
    first = add_atomically(progress, TAKEN, chunk)
    while first < count:
        last = min(first + chunk, count)
        for n in range(first, last):
            if modes[n] != L.SKIP_CAR:
                fresh = modes[n] == L.RESET_CAR
                take_picture(n, fresh, rules, cars, roads, camera, points, clipped, screen)
        add_atomically(progress, DONE, last - first)
        first = add_atomically(progress, TAKEN, chunk)
