"""When the Moon's shadow can touch satellites: around a new moon, where its axis passes near the Earth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batches import Array, Batch, Ints
from .constants import SGP4_MU_KM3_PER_S2
from .shadow import Occluder

SAG_KM = 500.0  # how far the shadow's axis can be below the chord between two hourly distances, amply


@dataclass(frozen=True, eq=False)
class Passages(Batch):
    """What is left of batches when all cells that the Moon's shadow cannot touch are cut out.

    ``cell`` numbers the nodes at whose right a cell is left; satellites without one have no nodes.
    """

    cell: Ints


def passages(batch: Batch, moon: Occluder) -> Passages:
    """Cut out of a batch what the Moon's shadow cannot touch."""
    cell = _cells_when_near(batch, moon)
    if len(cell):
        cell = cell[_chord_is_near(batch, moon, cell)]
    node = np.union1d(cell, cell + 1)
    return Passages(
        batch.models,
        batch.start_ms,
        np.searchsorted(node, batch.first),
        batch.t_s[node],
        tuple([component[node] for component in batch.r]),
        tuple([component[node] for component in batch.v]),
        np.searchsorted(node, cell),
    )


def join(parts: Sequence[Passages]) -> Passages:
    """Put the passages of several batches one after the other: arrays so short are slow one by one."""
    offset = np.cumsum([0, *(len(part.t_s) for part in parts)])
    first = [part.first[:-1] + o for part, o in zip(parts, offset[:-1], strict=True)]
    return Passages(
        [model for part in parts for model in part.models],
        parts[0].start_ms,
        np.concatenate([*first, offset[-1:]]),
        np.concatenate([part.t_s for part in parts]),
        tuple([np.concatenate([part.r[i] for part in parts]) for i in range(3)]),
        tuple([np.concatenate([part.v[i] for part in parts]) for i in range(3)]),
        np.concatenate([part.cell + o for part, o in zip(parts, offset[:-1], strict=True)]),
    )


def _cells_when_near(batch: Batch, moon: Occluder) -> Ints:
    """Find the cells at whose time the shadow's axis passes the Earth within a satellite's reach."""
    assert moon.centre is not None
    m, d = moon.centre.coefficients[0], moon.sun.coefficients[0]
    along = m[0] * d[0] + m[1] * d[1] + m[2] * d[2]
    miss = np.sqrt(np.maximum(m[0] * m[0] + m[1] * m[1] + m[2] * m[2] - along * along, 0.0)) - SAG_KM
    miss[along < -1e5] = 1e12  # a Moon far behind the Earth shades what is farther still
    begin, end = batch.first[:-1], batch.first[1:]
    radius2 = batch.r[0] * batch.r[0] + batch.r[1] * batch.r[1] + batch.r[2] * batch.r[2]
    reach = np.sqrt(np.maximum.reduceat(radius2, begin)) * 1.025
    limit = np.where(reach > 250_000, np.inf, reach + 4_000)  # the penumbra's radius at the Earth is 3,600 km
    if miss.min() > limit.max():
        return np.empty(0, np.int64)
    knot = (batch.t_s + (batch.start_ms - 1000 * moon.centre.first_s) / 1000.0) / moon.centre.step_s
    knot = np.clip(knot.astype(np.int64), 0, len(miss) - 1)
    least = miss
    for _ in range(
        max(int(np.diff(knot).max()), 0) + 1
    ):  # the least at a cell's knots, the next one included
        least = np.minimum(least, np.append(least[1:], least[-1]))
    near = least[knot] < np.repeat(limit, end - begin)
    near[end - 1] = False  # a satellite's last node begins no cell
    return np.flatnonzero(near)


def _chord_is_near(batch: Batch, moon: Occluder, cell: Ints) -> NDArray[np.bool_]:
    """Say within which cells the path may touch the shadow.

    Seen along the axis, a path is no farther from its chord than an eighth of the acceleration times the
    step squared. Cells are so short that within one gravity grows by less than half (`batches.fly`); the Moon's
    own motion and the turning of the axis add some kilometres.
    """
    ends = [_across(batch, moon, node) for node in (cell, cell + 1)]
    (p, x_left, radius_left), (p_right, x_right, radius_right) = ends
    chord = [b - a for a, b in zip(p, p_right, strict=True)]
    length2 = sum(c * c for c in chord)
    share = np.clip(-sum(a * c for a, c in zip(p, chord, strict=True)) / np.maximum(length2, 1e-9), 0.0, 1.0)
    miss2 = sum((a + share * c) ** 2 for a, c in zip(p, chord, strict=True))
    step = batch.t_s[cell + 1] - batch.t_s[cell]
    radius = np.minimum(radius_left, radius_right)
    sag = (1.5 * SGP4_MU_KM3_PER_S2 / 8) * (step / radius) ** 2
    # The penumbra opens by 0.0047 radians.
    touch = moon.radius_km + 0.0048 * np.maximum(np.maximum(x_left, x_right), 0.0) + sag + 100.0
    return miss2 < touch * touch


def _across(batch: Batch, moon: Occluder, node: Ints) -> tuple[list[Array], Array, Array]:
    """Give nodes' places across the shadow's axis, the distance along it, and from the Earth's centre [km]."""
    assert moon.centre is not None
    t_s, r = batch.t_s[node], [component[node] for component in batch.r]
    *sun, _ = moon.sun.at(batch.start_ms, t_s, order=0)[0]
    centre = moon.centre.at(batch.start_ms, t_s, order=0)[0]
    place = [p - c for p, c in zip(r, centre, strict=True)]
    x = -(place[0] * sun[0] + place[1] * sun[1] + place[2] * sun[2])
    across = [p + x * s for p, s in zip(place, sun, strict=True)]
    return across, x, np.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
