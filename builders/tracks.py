"""How each satellite moves past an occluder between its SGP4 states.

A few states a revolution carry a degree-seven polynomial in each cell, since positions, velocities and the
main part of the force give three derivatives at both ends. It stays within metres of SGP4 in low orbits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batches import Array, Batch, Ints
from .interpolation import septic, value
from .shadow import Occluder, Vector

_MOON_SPEED_KM_PER_S = 1.2


@dataclass(frozen=True, eq=False)
class Track:
    """An occluder's x and q along cells, as polynomials of degree seven.

    ``cell`` numbers the node at each cell's left end; ``joined[k]`` says that cell k + 1 goes on where cell k
    ends.
    """

    occluder: Occluder
    cell: Ints
    valid: NDArray[np.bool_]
    joined: NDArray[np.bool_]
    start_s: Array
    step_s: Array
    x: list[Array]
    q: list[Array]
    sun: Array
    right: tuple[Array, Array]

    def at(self, k: Ints, u: Array) -> tuple[Array, Array, Array]:
        """Give x, q and the Sun's distance at the fractions u of cells k."""
        return value([c.take(k) for c in self.x], u), value([c[k] for c in self.q], u), self.sun[k]


def earth_track(batch: Batch, occluder: Occluder, force: tuple[Vector, Vector]) -> Track:
    """Make the Earth's track over all cells of a batch."""
    x, q, sun = occluder.motion(batch.start_ms, batch.t_s, batch.r, batch.v, *force)
    step = np.diff(batch.t_s)
    valid = np.ones(len(step), bool)
    valid[batch.first[1:-1] - 1] = False
    step[~valid] = 1.0
    return Track(
        occluder,
        np.arange(len(step)),
        valid,
        valid[:-1] & valid[1:],
        batch.t_s[:-1],
        step,
        septic(step, [p[:-1] for p in x], [p[1:] for p in x]),
        septic(step, [p[:-1] for p in q], [p[1:] for p in q]),
        sun[:-1],
        (x[0][1:], q[0][1:]),
    )


def moon_track(batch: Batch, occluder: Occluder, force: tuple[Vector, Vector]) -> Track | None:
    """Make the Moon's track over the cells that its shadow can touch; None where there are none.

    The axis of the shadow passes the Earth's centre at a known distance; a satellite is within its own
    radius of that centre.
    """
    assert occluder.centre is not None
    cell = _cells_near_moon(batch, occluder)
    if not len(cell):
        return None
    node = np.union1d(cell, cell + 1)
    a, jerk = force
    x, q, sun = occluder.motion(
        batch.start_ms,
        batch.t_s[node],
        _take(batch.r, node),
        _take(batch.v, node),
        _take(a, node),
        _take(jerk, node),
    )
    left = np.searchsorted(node, cell)
    right = left + 1
    step = batch.t_s[cell + 1] - batch.t_s[cell]
    return Track(
        occluder,
        cell,
        np.ones(len(cell), bool),
        np.diff(cell) == 1,
        batch.t_s[cell],
        step,
        septic(step, [p[left] for p in x], [p[right] for p in x]),
        septic(step, [p[left] for p in q], [p[right] for p in q]),
        sun[left],
        (x[0][right], q[0][right]),
    )


def _take(vector: Vector, index: Ints) -> Vector:
    return vector[0][index], vector[1][index], vector[2][index]


def _cells_near_moon(batch: Batch, occluder: Occluder) -> Ints:
    centre, sun = occluder.centre, occluder.sun
    assert centre is not None
    offset_s = (batch.start_ms - 1000 * centre.first_s) / 1000.0
    m = [centre.coefficients[0, i] for i in range(3)]
    d = [sun.coefficients[0, i] for i in range(3)]
    along = m[0] * d[0] + m[1] * d[1] + m[2] * d[2]
    miss = np.sqrt(np.maximum(m[0] * m[0] + m[1] * m[1] + m[2] * m[2] - along * along, 0.0))
    miss = np.where(along > -1e5, miss, np.inf)  # a Moon far behind the Earth shades what is farther still
    # Widened to a whole step on either side of each knot, by the axis' greatest speed.
    miss -= 1.5 * _MOON_SPEED_KM_PER_S * centre.step_s
    reach = np.sqrt(batch.r[0] * batch.r[0] + batch.r[1] * batch.r[1] + batch.r[2] * batch.r[2])
    begin, end = batch.first[:-1], batch.first[1:]
    reach = np.maximum.reduceat(reach, begin) * 1.02
    if miss.min() > reach.max() * 1.005 + 4_000:
        return np.empty(0, np.int64)
    limit = reach * 1.005 + 4_000  # the penumbra's radius at the Earth is 3,600 km
    limit[reach > 250_000] = np.inf
    miss[np.isinf(miss)] = 1e12
    found = []
    for i in np.flatnonzero(limit > miss.min()).tolist():
        close = np.concatenate([[0], np.cumsum(miss < limit[i])])
        t = batch.t_s[begin[i] : end[i]]
        low = np.clip(((t[:-1] + offset_s) / centre.step_s).astype(np.int64), 0, len(miss) - 1)
        high = np.clip(((t[1:] + offset_s) / centre.step_s).astype(np.int64) + 1, 0, len(miss) - 1)
        found.append(begin[i] + np.flatnonzero(close[high + 1] > close[low]))
    return np.concatenate(found) if found else np.empty(0, np.int64)
