"""Between which instants contacts must lie, and where about.

Samples on the polynomials of a track bracket the contacts; an interior extremum close to a boundary is
looked up on SGP4 itself, so no grazing eclipse is lost between two samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batches import Array, Batch, Ints
from .constants import SGP4_MU_KM3_PER_S2
from .propagation import acceleration
from .roots import rising_root
from .shadow import Depth, Occluder, cylinder_distance, distance_rates, signed_distances
from .tracks import EarthTrack, MoonTrack

SLACK_KM = 4.0  # where a polynomial comes this close to a boundary, SGP4 decides
SOFT_END = 1e-3  # of a cell: in a second of a low orbit, a boundary moves by several times the slack


@dataclass(frozen=True, eq=False)
class Brackets:
    """Between which instants contacts lie, one a row, and what holds where a track begins and ends.

    Parameters
    ----------
    which : ndarray of int64, shape (n,)
        Index of the depth.
    k : ndarray of int64, shape (n,)
        Cell of the track.
    low, high : ndarray, shape (n,)
        Fractions of the cell.
    guess : ndarray, shape (n,)
        Where in between, roughly.
    entering : ndarray of bool, shape (n,)
        Whether the satellite is outside at ``low``.
    slack : tuple of ndarray, shape (n,)
        How far beyond ``low`` and ``high`` a contact may lie on SGP4 itself [fraction of the cell].
    inside_first, inside_last : ndarray of bool, shape (depths, cells)
        Whether the satellite is inside at the left and the right end of each cell.
    """

    which: Ints
    k: Ints
    low: Array
    high: Array
    guess: Array
    entering: NDArray[np.bool_]
    slack: tuple[Array, Array]
    inside_first: NDArray[np.bool_]
    inside_last: NDArray[np.bool_]


def exact_rates(
    batch: Batch, occluder: Occluder, wanted: Sequence[Depth], which: Ints, satellite: Ints, t_s: Array
) -> tuple[Array, Array, Array]:
    """Give the signed distance and two derivatives on SGP4 itself, rows sorted by satellite."""
    r, v = batch.propagate(satellite, t_s)
    a = acceleration(*r)
    x, q, sun = occluder.motion(batch.start_ms, t_s, r, v, a)
    return distance_rates(occluder, wanted, which, x, q, sun)


def find_brackets(
    batch: Batch, track: EarthTrack | MoonTrack, wanted: Sequence[Depth], parts: int
) -> Brackets:
    """Bracket every contact along a track.

    Parameters
    ----------
    batch : Batch
    track : Track
    wanted : sequence of Depth
    parts : int
        Into how many equal parts a cell is divided by samples.

    Returns
    -------
    Brackets
    """
    spread = _spread_km(track)
    g, near = _sample(track, wanted, parts, spread)
    _settle_near_zero(batch, track, wanted, g, near)
    inside = g < 0
    change = inside[:, 1:] ^ inside[:, :-1]
    which, j, k = _where(change & track.valid)
    soft = np.full(len(k), SOFT_END)
    guess = (j + _first_guess(g, which, j, k)) / parts
    rows = [(which, k, j / parts, (j + 1) / parts, guess, ~inside[which, j, k], soft, soft)]
    rows += _hidden_pairs(batch, track, wanted, g, (near[:, 1:] | near[:, :-1]) & ~change, spread)
    which, k, low, high, guess, entering, *slack = (np.concatenate(p) for p in zip(*rows, strict=True))
    return Brackets(which, k, low, high, guess, entering, (slack[0], slack[1]), inside[:, 0], inside[:, -1])


def _sample(
    track: EarthTrack | MoonTrack, wanted: Sequence[Depth], parts: int, spread: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Give the distances at samples, shape (depths, parts + 1, cells), and where a boundary is in reach.

    All boundaries are close to the cylinder's. Out of reach of them all, its distance, which is the cheapest, stands for
    theirs: of the same sign, and no more than ``spread`` from them.
    """
    dip = _dip_km(track, parts)
    reach = np.where(track.valid, dip + spread, -1.0)
    cylinder = np.empty((parts + 1, len(reach)))
    found: list[tuple[Ints, Array, Array, Array, Array]] = []
    for j, (x, q, sun) in enumerate(track.samples(parts)):
        cylinder[j] = cylinder_distance(track.occluder, x, q)
        # No shadow falls on the Sun's side.
        rows = np.flatnonzero((np.abs(cylinder[j]) < reach) & (x > 0))
        found.append((rows + j * len(reach), x[rows], q[rows], sun[rows], dip[rows]))
    index, x, q, sun, bound = (np.concatenate(p) for p in zip(*found, strict=True))
    g = np.repeat(cylinder[None], len(wanted), axis=0)
    near = np.zeros(g.shape, bool)
    for i, distance in enumerate(signed_distances(track.occluder, wanted, x, q, sun)):
        g[i].reshape(-1)[index] = distance
        near[i].reshape(-1)[index] = np.abs(distance) < bound
    return g, near


def _first_guess(g: Array, which: Ints, j: Ints, k: Ints) -> Array:
    """Guess where in a part the distance changes its sign: on the parabola through three samples of the cell."""
    last = g.shape[1] - 1
    here, there = g[which, j, k], g[which, j + 1, k]
    ahead = j + 2 <= last
    third = g[which, np.where(ahead, j + 2, j - 1), k]
    half_bend = np.where(ahead, here - 2 * there + third, third - 2 * here + there) / 2
    rise = there - here
    u = -here / rise
    return np.clip(u - half_bend * u * (u - 1) / (rise + half_bend * (2 * u - 1)), 0.0, 1.0)


def _where(flags: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Give the three indices of true elements (several times faster than `numpy.nonzero`)."""
    flat = np.flatnonzero(flags)
    rest, k = np.divmod(flat, flags.shape[2])
    which, j = np.divmod(rest, flags.shape[1])
    return which, j, k


def _dip_km(track: EarthTrack | MoonTrack, parts: int) -> Array:
    """Bound how far a distance can dip between two samples.

    It is an eighth of the curvature times the step squared. Where the distance from the axis is about the
    Earth's radius R, the curvature is at most v2 / R + a, and v2 at most 2 mu / r. The Moon's umbra is
    so thin that the distance may turn at a point: there the bound is the path between two samples.
    """
    step = track.step_s / parts
    if isinstance(track, MoonTrack):
        return 13.0 * step + SLACK_KM
    over_r = 1 / np.sqrt(np.minimum(track.q[0], track.right[1]))
    bend = SGP4_MU_KM3_PER_S2 * over_r * (2 / track.occluder.radius_km + over_r)
    return 0.15 * step * step * bend + SLACK_KM


def _spread_km(track: EarthTrack | MoonTrack) -> Array:
    """Bound how far the boundaries are from the cylinder's: the Sun's radius is 0.0047 of its distance.

    No bound holds where the disc is so small that it may not hide enough of the Sun's, as the Moon's is.
    """
    big = track.occluder.radius_km
    if isinstance(track, MoonTrack):
        return np.full(len(track.cell), np.inf)
    radius = 1.25 * np.sqrt(
        np.maximum(track.q[0], track.right[1])
    )  # a cell's highest point may be between its ends
    return np.where(radius < 18 * big, 0.0048 * radius + 1.0, np.inf)


def _settle_near_zero(
    batch: Batch, track: EarthTrack | MoonTrack, wanted: Sequence[Depth], g: Array, near: NDArray[np.bool_]
) -> None:
    """Replace samples within the polynomial's error of a boundary by SGP4's own."""
    which, j, k = _where(near)
    rows = np.flatnonzero(np.abs(g[which, j, k]) < SLACK_KM)
    if not len(rows):
        return
    rows = rows[np.argsort(k[rows], kind="stable")]
    which, j, k = which[rows], j[rows], k[rows]
    parts = g.shape[1] - 1
    t_s = track.start_s[k] + j / parts * track.step_s[k]
    at_right = j == parts
    t_s[at_right] = batch.t_s[track.cell[k[at_right]] + 1]  # the same instant as the next cell's left end
    satellite = batch.satellite_of(track.cell[k])
    g[which, j, k] = exact_rates(batch, track.occluder, wanted, which, satellite, t_s)[0]


def _hidden_pairs(
    batch: Batch,
    track: EarthTrack | MoonTrack,
    wanted: Sequence[Depth],
    g: Array,
    close: NDArray[np.bool_],
    spread: Array,
) -> list[tuple[Ints, Ints, Array, Array, Array, NDArray[np.bool_], Array, Array]]:
    """Find pairs of contacts between two samples on the same, close side of a boundary."""
    parts, cells = g.shape[1] - 1, len(track.cell)
    which, j, k = _where(close)
    flat, at = g.reshape(-1), (which * (parts + 1) + j) * cells + k
    sign = np.where(flat[at] < 0, -1.0, 1.0)
    # The cylinder's distance stands for the others' to within its spread.
    blur = np.where(np.isfinite(spread), spread, 0.0)[k]
    goes_on = np.concatenate([[False], track.joined, [False]])  # [k]: whether cell k - 1 leads to cell k
    before = sign * flat[at + np.where(j > 0, -cells, (parts - 1) * cells - 1)]
    before[(j == 0) & ~goes_on[k]] = np.inf
    rows = np.flatnonzero(before >= sign * flat[at] - blur)
    which, j, k, at = which[rows], j[rows], k[rows], at[rows]
    sign, blur, before = sign[rows], blur[rows], before[rows]
    here, there = sign * flat[at], sign * flat[at + cells]
    after = sign * flat[at + np.where(j + 1 < parts, 2 * cells, (2 - parts) * cells + 1)]
    after[(j + 1 == parts) & ~goes_on[k + 1]] = np.inf
    # A parabola dips by an eighth of its second difference, a corner by half of it.
    share = 0.55 if isinstance(track, MoonTrack) else 0.25
    bend = np.maximum(before - 2 * here + there, here - 2 * there + after)
    deep = np.minimum(here, there) < share * (bend + 2 * blur) + SLACK_KM
    rows = np.flatnonzero((after >= there - blur) & deep)
    if not len(rows):
        return []
    rows = rows[np.argsort(k[rows], kind="stable")]
    which, j, k, sign = which[rows], j[rows], k[rows], sign[rows]
    low, high = j / parts, (j + 1) / parts
    u, least = _least(batch, track, wanted, which, k, sign, low, high)
    hit = np.flatnonzero((least < 0) & (u > low) & (u < high))
    which, k, u, low, high = which[hit], k[hit], u[hit], low[hit], high[hit]
    outside = sign[hit] > 0
    soft, firm = np.full(len(k), SOFT_END), np.zeros(len(k))
    return [
        (which, k, low, u, (low + u) / 2, outside, soft, firm),
        (which, k, u, high, (u + high) / 2, ~outside, firm, soft),
    ]


def _least(
    batch: Batch,
    track: EarthTrack | MoonTrack,
    wanted: Sequence[Depth],
    which: Ints,
    k: Ints,
    sign: Array,
    low: Array,
    high: Array,
) -> tuple[Array, Array]:
    """Find the least of sign times distance in parts of cells, on SGP4 itself where it is near zero."""

    def climb(u: Array, m: Ints) -> tuple[Array, Array, Array]:
        _, g1, g2 = _track_rates(track, wanted, which[m], k[m], u)
        return sign[m] * g1, sign[m] * g2, np.zeros_like(u)

    u = rising_root(climb, low, high, (low + high) / 2, 1e-3)
    least = sign * _track_rates(track, wanted, which, k, u)[0]
    m = np.flatnonzero(np.abs(least) < SLACK_KM)
    step, satellite = track.step_s[k[m]], batch.satellite_of(track.cell[k[m]])
    for last in (False, False, True) if len(m) else ():
        t_s = track.start_s[k[m]] + u[m] * step
        g, g1, g2 = exact_rates(batch, track.occluder, wanted, which[m], satellite, t_s)
        least[m] = sign[m] * g
        if not last:
            curved = (sign[m] * g2 > 0) & (least[m] >= 0)
            shift = np.where(curved, -g1 / np.where(curved, g2, 1.0), 0.0) / step
            u[m] = np.clip(u[m] + shift, low[m], high[m])
    return u, least


def _track_rates(
    track: EarthTrack | MoonTrack, wanted: Sequence[Depth], which: Ints, k: Ints, u: Array
) -> tuple[Array, Array, Array]:
    """Give signed distances and their first two derivatives in u on the polynomials."""
    x, q, sun = track.rates(k, u)
    return distance_rates(track.occluder, wanted, which, x, q, sun, exact=False)


def guess_contacts(track: EarthTrack | MoonTrack, wanted: Sequence[Depth], found: Brackets) -> Array:
    """Find the contacts on the polynomials [s], to some milliseconds."""
    sign = np.where(found.entering, -1.0, 1.0)

    def leaving(u: Array, m: Ints) -> tuple[Array, Array, Array]:
        g, g1, g2 = _track_rates(track, wanted, found.which[m], found.k[m], u)
        s = sign[m]
        return s * g, s * g1, s * g2

    u = rising_root(leaving, found.low, found.high, found.guess, 6e-3)
    return track.start_s[found.k] + u * track.step_s[found.k]
