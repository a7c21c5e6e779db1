"""A tree of boxes around patches of a surface, to search for the nearest triangle.

A box holds four boxes of the level below. It lies along its patch, not along the axes: to a distant
point its distance is then nearly that of the patch, and few boxes have to be opened however far the
point is. With boxes along the axes their number grows in proportion to the distance.

Arrays hold one box, or one triangle, in each column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FOUR = 4
"""Box i holds the boxes 4 i, ..., 4 i + 3 of the level below."""
LEAF = 8
"""Most triangles in a box of the lowest level."""
_CHUNK = 1 << 14  # triangles worked on at a time
_ROUNDING = 1e-12  # how much larger a box is than its patch, as a share of the largest coordinate


def sorted_triangles(corners: Floats) -> Floats:
    """Triangles (9, T), three corners each, reordered so that neighbours of like size are close."""
    one, two, three = corners[:3], corners[3:6], corners[6:]
    low, high = (f(f(one, two), three) for f in (np.minimum, np.maximum))
    from scipy.spatial import KDTree

    tree = KDTree(np.concatenate((low, high)).T, leafsize=LEAF // 2)
    return np.take(corners, tree.indices, 1)


def make_tree(corners: Floats) -> tuple[Whole, list[Floats]]:
    """Where the triangles (9, T) of each lowest box begin, and the boxes, lowest level first.

    Rows of boxes (18, n): three axes (0-8), the middle (9-11) and half the size (12-14) along
    them, and a point of the surface near the middle (15-17). 100 triangles have three levels, of
    16, 4 and 1 boxes, the lowest with 6 or 7 triangles each.
    """
    counts = np.array([corners.shape[1]])
    levels = [counts]
    while counts.max() > LEAF:
        for _ in range(2):  # halved twice, as by the KD-tree that sorted the triangles
            counts = np.stack((counts // 2, counts - counts // 2), 1).ravel()
        levels.append(counts)
    origin = corners.reshape(3, 3, -1).mean((0, 2))
    rounding = _ROUNDING * float(np.abs(corners).max())
    totals = _totals(corners, origin, _starts(counts))
    samples = corners.reshape(3, 3, -1).mean(0)
    boxes: list[Floats] = []
    for counts in reversed(levels):
        members = counts if not boxes else np.full(len(counts), FOUR)
        if boxes:
            totals = np.add.reduceat(totals, _starts(members), 1)
        mean, axes = _frames(totals)
        samples = _nearest_sample(samples, members, mean + origin[:, None])
        low, high = _extent(corners, counts, axes)
        boxes.append(np.concatenate((axes, (low + high) / 2, (high - low) / 2 + rounding, samples)))
    return _starts(levels[-1]), boxes


def bounds(points: Floats, boxes: Floats) -> tuple[Floats, Floats]:
    """Squared distances of point i (3, n): to box i (18, n), and to the surface point in the box.

    They are a lower and an upper bound on the distance to the triangles in the box.
    """
    lower = np.zeros(points.shape[1])
    for axis in range(3):
        away = dot(boxes[3 * axis : 3 * axis + 3], points)
        away -= boxes[9 + axis]
        np.abs(away, out=away)
        away -= boxes[12 + axis]
        np.maximum(away, 0, out=away)
        away *= away
        lower += away
    offset = points - boxes[15:]
    return lower, dot(offset, offset)


def dot(a: Floats, b: Floats) -> Floats:
    """Dot products of the columns, three rows each."""
    total = a[0] * b[0]
    total += a[1] * b[1]
    total += a[2] * b[2]
    return total


def _starts(counts: Whole) -> Whole:
    return np.cumsum(counts) - counts


def _totals(corners: Floats, origin: Floats, starts: Whole) -> Floats:
    """Number, sum (1-3) and products (4-12) of the corners of each group, from the origin."""
    totals = np.empty((13, len(starts)))
    totals[0] = 3 * np.diff(starts, append=corners.shape[1])
    for i in range(3):
        here = corners[i::3] - origin[i]
        totals[1 + i] = np.add.reduceat(here.sum(0), starts)
        for j in range(i, 3):
            products = np.add.reduceat((here * (corners[j::3] - origin[j])).sum(0), starts)
            totals[4 + 3 * i + j] = totals[4 + 3 * j + i] = products
    return totals


def _frames(totals: Floats) -> tuple[Floats, Floats]:
    """Mean (3, n) and principal axes (9, n) of groups."""
    mean = totals[1:4] / totals[0]
    spread = (totals[4:] / totals[0]).reshape(3, 3, -1) - mean[:, None] * mean
    axes = np.linalg.eigh(spread.transpose(2, 0, 1))[1]  # one a column
    return mean, np.ascontiguousarray(axes.transpose(2, 1, 0).reshape(9, -1))


def _nearest_sample(samples: Floats, members: Whole, mean: Floats) -> Floats:
    """The sample of each group that is nearest to its mean."""
    group = np.repeat(np.arange(len(members)), members)
    offset = samples - mean[:, group]
    away = dot(offset, offset)
    nearest = np.flatnonzero(away == np.minimum.reduceat(away, _starts(members))[group])
    chosen = np.empty(len(members), np.int64)
    chosen[group[nearest]] = nearest
    return samples[:, chosen]


def _extent(corners: Floats, counts: Whole, axes: Floats) -> tuple[Floats, Floats]:
    """Lowest and highest coordinate (3, n) along its axes of each group of triangles."""
    low, high = np.empty((3, len(counts))), np.empty((3, len(counts)))
    step = max(1, _CHUNK * len(counts) // corners.shape[1])
    begins = _starts(counts)
    for first in range(0, len(counts), step):
        part = slice(first, first + step)
        frame = np.repeat(axes[:, part], counts[part], 1)
        here = corners[:, begins[first] : begins[first] + frame.shape[1]]
        starts = begins[part] - begins[first]
        for axis in range(3):
            one, two, three = (
                dot(frame[3 * axis : 3 * axis + 3], here[3 * k : 3 * k + 3]) for k in range(3)
            )
            lowest = np.minimum(np.minimum(one, two), three)
            low[axis, part] = np.minimum.reduceat(lowest, starts)
            highest = np.maximum(np.maximum(one, two), three)
            high[axis, part] = np.maximum.reduceat(highest, starts)
    return low, high
