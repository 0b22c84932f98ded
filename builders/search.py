"""Where contacts must lie: SGP4 states on a coarse grid, polynomials between them, sign changes and extrema.

A grid of a few SGP4 states a revolution carries a degree-seven polynomial in each cell (metres from SGP4 in
low orbits). Samples on it bracket the contacts; an interior extremum close to a boundary is looked up on
SGP4 itself, so a grazing eclipse is not lost between two samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sgp4.api import Satrec

from .constants import SGP4_MU_KM3_PER_S2
from .interpolation import Array, septic, slope, value
from .propagation import acceleration, states
from .shadow import Depth, Occluder, Vector, signed_distance, signed_distance_rates

Ints = NDArray[np.int64]

SLACK_KM = 1.0  # where a polynomial comes this close to a boundary, SGP4 decides
_MOON_SPEED_KM_PER_S = 1.2


@dataclass(frozen=True, eq=False)
class Batch:
    """States of several satellites on their grids, one satellite after the other.

    ``first[i]`` is the first node of satellite i, ``first[-1]`` the number of nodes.
    """

    models: Sequence[Satrec]
    start_ms: int
    first: Ints
    t_s: Array
    r: Vector
    v: Vector

    def satellite_of(self, node: Ints) -> Ints:
        """Say which satellite nodes (or the cells that begin there) belong to."""
        return np.searchsorted(self.first, node, side="right") - 1

    def propagate(self, satellite: Ints, t_s: Array) -> tuple[Vector, Vector]:
        """Run SGP4 for rows sorted by satellite: TEME position and velocity as columns."""
        r, v = np.empty((len(t_s), 3)), np.empty((len(t_s), 3))
        edges = np.flatnonzero(np.diff(satellite)) + 1
        begins = np.concatenate([[0], edges]).tolist() if len(t_s) else []
        ends = [*edges.tolist(), len(t_s)]
        for begin, end in zip(begins, ends, strict=False):
            _, r[begin:end], v[begin:end] = states(
                self.models[int(satellite[begin])], self.start_ms, t_s[begin:end]
            )
        return columns(r), columns(v)


def columns(rows: Array) -> Vector:
    """Turn shape (n, 3) into three contiguous arrays."""
    x, y, z = np.ascontiguousarray(rows.T)
    return x, y, z


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
        return value([c[k] for c in self.x], u), value([c[k] for c in self.q], u), self.sun[k]


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


@dataclass(frozen=True, eq=False)
class Brackets:
    """Between which instants the contacts of one depth lie, and what holds at a track's ends.

    ``k`` is a cell of the track; the satellite enters where ``entering``, else it leaves.
    """

    k: Ints
    low: Array
    high: Array
    low_km: Array
    high_km: Array
    entering: NDArray[np.bool_]
    inside_first: NDArray[np.bool_]
    inside_last: NDArray[np.bool_]


def exact_distance(
    batch: Batch, occluder: Occluder, depth: Depth, satellite: Ints, t_s: Array
) -> tuple[Array, Array, Array]:
    """Give the signed distance and two derivatives on SGP4 itself, rows sorted by satellite."""
    r, v = batch.propagate(satellite, t_s)
    a, _ = acceleration(*r, *v)
    x, q, sun = occluder.motion(batch.start_ms, t_s, r, v, a)
    return signed_distance_rates(occluder, depth, x, q, sun)


def samples(track: Track, parts: int) -> tuple[list[Array], list[Array]]:
    """Evaluate x and q at ``parts`` + 1 equally spaced instants of every cell."""
    inner = [j / parts for j in range(1, parts)]
    x = [track.x[0], *(value(track.x, u) for u in inner), track.right[0]]
    q = [track.q[0], *(value(track.q, u) for u in inner), track.right[1]]
    return x, q


def find_brackets(batch: Batch, track: Track, depth: Depth, x: list[Array], q: list[Array]) -> Brackets:
    """Bracket every contact of one depth along a track.

    Parameters
    ----------
    batch : Batch
    track : Track
    depth : Depth
    x, q : list of ndarray, shape (cells,)
        From `samples`.

    Returns
    -------
    Brackets
    """
    parts = len(x) - 1
    occluder = track.occluder
    g = np.empty((parts + 1, len(track.cell)))
    for j in range(parts + 1):
        g[j] = signed_distance(occluder, depth, x[j], q[j], track.sun)
    _settle_near_zero(batch, track, depth, g)
    inside = g < 0
    j, k = np.nonzero((inside[1:] != inside[:-1]) & track.valid)
    low, high = j / parts, (j + 1) / parts
    rows = [(k, low, high, g[j, k], g[j + 1, k])]
    rows += _hidden_pairs(batch, track, depth, g, inside)
    k, low, high, low_km, high_km = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Brackets(k, low, high, low_km, high_km, low_km >= 0, inside[0], inside[-1])


def _settle_near_zero(batch: Batch, track: Track, depth: Depth, g: Array) -> None:
    """Replace samples within the polynomial's error of a boundary by SGP4's own."""
    k, j = np.nonzero((np.abs(g) < SLACK_KM).T & track.valid[:, None])
    if not len(k):
        return
    u = j / (len(g) - 1)
    satellite = batch.satellite_of(track.cell[k])
    t_s = track.start_s[k] + u * track.step_s[k]
    at_right = j == len(g) - 1
    t_s[at_right] = batch.t_s[track.cell[k[at_right]] + 1]  # the same instant as the next cell's left end
    g[j, k] = exact_distance(batch, track.occluder, depth, satellite, t_s)[0]


def _hidden_pairs(
    batch: Batch, track: Track, depth: Depth, g: Array, inside: NDArray[np.bool_]
) -> list[tuple[Ints, Array, Array, Array, Array]]:
    """Find pairs of contacts between two samples on the same side of a boundary."""
    parts = len(g) - 1
    # How far a curve can dip between two samples: an eighth of its curvature times the step squared; the
    # curvature is at most v2 / R + a, and v2 at most 2 mu / r. Four times that much is looked at.
    over_r = 1 / np.sqrt(np.minimum(track.q[0], track.right[1]))
    if track.occluder.name == "moon":
        over_r = np.full_like(over_r, 1 / 6_400.0)
    mu, sub = SGP4_MU_KM3_PER_S2, track.step_s / parts
    near = 0.5 * sub * sub * mu * over_r * (2 / track.occluder.radius_km + over_r) + SLACK_KM
    close = np.abs(g) < near
    j, k = np.nonzero((close[:-1] | close[1:]) & (inside[1:] == inside[:-1]) & track.valid)
    if not len(k):
        return []
    sign = np.where(inside[j, k], -1.0, 1.0)
    has_before = np.concatenate([[False], track.joined])
    has_after = np.concatenate([track.joined, [False]])
    before = np.where(j > 0, g[j - 1, k], np.where(has_before[k], g[parts - 1, k - 1], sign * np.inf))
    k_after = np.minimum(k + 1, len(track.cell) - 1)
    after = np.where(
        j + 1 < parts,
        g[np.minimum(j + 2, parts), k],
        np.where(has_after[k], g[1, k_after], sign * np.inf),
    )
    turning = (sign * before >= sign * g[j, k]) & (sign * after >= sign * g[j + 1, k])
    j, k, sign = j[turning], k[turning], sign[turning]
    if not len(k):
        return []

    def height(u: Array, rows: Ints | slice = slice(None)) -> Array:
        return sign[rows] * signed_distance(track.occluder, depth, *track.at(k[rows], u))

    low, high = j / parts, (j + 1) / parts
    u = _golden_minimum(height, low, high)
    least = height(u)
    unsure = np.flatnonzero(np.abs(least) < SLACK_KM)
    if len(unsure):
        unsure = unsure[np.argsort(track.cell[k[unsure]], kind="stable")]
        start, step = track.start_s[k[unsure]], track.step_s[k[unsure]]
        satellite = batch.satellite_of(track.cell[k[unsure]])
        for _ in range(2):  # the second time at the extremum of SGP4 itself
            now = exact_distance(batch, track.occluder, depth, satellite, start + u[unsure] * step)
            least[unsure] = sign[unsure] * now[0]
            curved = sign[unsure] * now[2] > 0
            shift = np.where(curved & (least[unsure] > 0), -now[1] / np.where(curved, now[2], 1.0), 0.0)
            u[unsure] = np.clip(u[unsure] + shift / step, low[unsure], high[unsure])
        now = exact_distance(batch, track.occluder, depth, satellite, start + u[unsure] * step)
        least[unsure] = sign[unsure] * now[0]
    hit = np.flatnonzero(least < 0)
    j, k, low, high, u, at_u = j[hit], k[hit], low[hit], high[hit], u[hit], (sign * least)[hit]
    return [(k, low, u, g[j, k], at_u), (k, u, high, at_u, g[j + 1, k])]


def _golden_minimum(height, low: Array, high: Array, rounds: int = 42) -> Array:
    """Narrow down the least value between ``low`` and ``high`` (golden section), all rows at once."""
    ratio = (np.sqrt(5.0) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = height(a), height(b)
    for _ in range(rounds):
        left = at_a < at_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        new = np.where(left, high - ratio * (high - low), low + ratio * (high - low))
        at_new = height(new)
        a, b = np.where(left, new, b), np.where(left, a, new)
        at_a, at_b = np.where(left, at_new, at_b), np.where(left, at_a, at_new)
    return np.where(at_a < at_b, a, b)


def guess_contacts(track: Track, depth: Depth, found: Brackets) -> Array:
    """Find the contacts on the polynomials [s], to some milliseconds: safeguarded Newton steps."""
    k, low, high = found.k, found.low.copy(), found.high.copy()
    u = low + (high - low) * found.low_km / (found.low_km - found.high_km)
    sign = np.where(found.entering, 1.0, -1.0)
    active = np.arange(len(k))
    for _ in range(60):
        if not len(active):
            break
        c, at = k[active], u[active]
        xc, qc = [p[c] for p in track.x], [p[c] for p in track.q]
        zero = np.zeros_like(at)
        g, g1, _ = signed_distance_rates(
            track.occluder,
            depth,
            [value(xc, at), slope(xc, at), zero],
            [value(qc, at), slope(qc, at), zero],
            track.sun[c],
        )
        before = sign[active] * g > 0
        low[active] = np.where(before, at, low[active])
        high[active] = np.where(before, high[active], at)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = at - g / g1
        wild = ~((new > low[active]) & (new < high[active]))
        new = np.where(wild, (low[active] + high[active]) / 2, new)
        u[active] = new
        moved = np.abs(new - at)
        active = active[(moved > 2e-4) & (high[active] - low[active] > 1e-9)]
    return track.start_s[k] + u * track.step_s[k]
