"""Shadow intervals of satellites: when each is inside the penumbra, half-lit and umbra boundaries.

SGP4 states on a coarse grid and polynomials between them bracket every contact (`search`); here the
contacts are refined on SGP4 itself to 1e-9 s and paired into intervals of whole milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .batches import Array, Batch, Ints, batches
from .element_set import ElementSet
from .propagation import acceleration
from .refinement import ContactError, refine
from .roots import golden_minimum
from .search import find_brackets, guess_contacts
from .shadow import Depth, Occluder, ShadowModel, depths, obscuration, occluders
from .tracks import EarthTrack, MoonTrack, Track, earth_track, moon_track

EARTH_PARTS, MOON_PARTS = 6, 16  # samples a cell
BETA_STEP_S = 21_600.0

OCCLUDERS = ("earth", "moon")
DEPTHS = ("gap", "half", "penumbra", "umbra")  # sorted, as the rows are


class SpanError(InputError):
    """A span that cannot be searched."""


@dataclass(frozen=True, eq=False)
class Shadows:
    """Intervals inside shadow boundaries, flat parallel arrays sorted by satellite, start, occluder, depth.

    Times are milliseconds from the span's start, half-open [start, stop); ``cut_start`` and ``cut_stop`` say
    that the span's end, not a contact, bounds the interval. ``max_obscuration`` is given for the
    penumbra rows, NaN elsewhere. Per satellite: until when its positions are known and why no longer ("" if
    they are to the end), and the least and greatest beta angle of six-hourly instants.
    """

    satellite: Ints
    occluder: NDArray[np.str_]
    depth: NDArray[np.str_]
    start_ms: Ints
    stop_ms: Ints
    cut_start: NDArray[np.bool_]
    cut_stop: NDArray[np.bool_]
    max_obscuration: Array
    known_until_ms: Ints
    failure: tuple[str, ...]
    beta_min_deg: Array
    beta_max_deg: Array


def find_shadows(
    element_sets: Sequence[ElementSet], start_ms: int, span_ms: int, model: ShadowModel | None = None
) -> Shadows:
    """Find every interval that satellites spend inside the shadow boundaries of the Earth and the Moon.

    A satellite's rows do not depend on which others are asked for.

    Parameters
    ----------
    element_sets : sequence of ElementSet
    start_ms : int
        The instant of t = 0, UTC [ms since 1970-01-01].
    span_ms : int
        Length of the span [ms].
    model : ShadowModel, optional
        The choices; the defaults are those of the bundled release.

    Returns
    -------
    Shadows

    Raises
    ------
    SpanError
        If the span is empty.
    """
    model = ShadowModel() if model is None else model
    if span_ms <= 0:
        raise SpanError(f"span_ms must be positive, got {span_ms}: ask for at least one millisecond")
    bodies = occluders(model, start_ms, span_ms)
    wanted = depths(model)
    n = len(element_sets)
    known = np.zeros(n, np.int64)
    failure = [""] * n
    beta = np.full((2, n), np.nan)
    tables = [_no_rows()]
    for members, batch, ends, reasons in batches(element_sets, start_ms, span_ms):
        known[members] = ends
        for i, reason in zip(members.tolist(), reasons, strict=True):
            failure[i] = reason
        if batch is None:
            continue
        flown, ends = members[ends > 0], ends[ends > 0]
        beta[:, flown] = _beta_deg(batch, bodies[0], ends)
        force = acceleration(*batch.r, *batch.v)
        parts: list[_Rows] = []
        for body in bodies:
            track = earth_track(batch, body, force) if body.centre is None else moon_track(batch, body, force)
            if track is not None:
                parts += _intervals(batch, track, wanted, ends)
        rows = _stack(parts)
        # One key for satellite, start, occluder and depth; a batch's satellites follow the last one's.
        key = (rows.satellite * (span_ms + 1) + rows.start_ms) * len(OCCLUDERS) + rows.occluder
        rows = rows.take(np.argsort(key * len(DEPTHS) + rows.depth))
        tables.append(replace(rows, satellite=flown[rows.satellite]))
    rows = _stack(tables)
    return Shadows(
        rows.satellite,
        np.array(OCCLUDERS)[rows.occluder],
        np.array(DEPTHS)[rows.depth],
        rows.start_ms,
        rows.stop_ms,
        rows.cut_start,
        rows.cut_stop,
        rows.max_obscuration,
        known,
        tuple(failure),
        beta[0],
        beta[1],
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of `Shadows`, with numbers for occluder and depth."""

    satellite: Ints
    occluder: Ints
    depth: Ints
    start_ms: Ints
    stop_ms: Ints
    cut_start: NDArray[np.bool_]
    cut_stop: NDArray[np.bool_]
    max_obscuration: Array

    def take(self, index: Ints | NDArray[np.bool_]) -> "_Rows":
        return _Rows(*(getattr(self, f.name)[index] for f in fields(self)))


def _stack(tables: Sequence[_Rows]) -> _Rows:
    return _Rows(*(np.concatenate([getattr(rows, f.name) for rows in tables]) for f in fields(_Rows)))


def _no_rows() -> _Rows:
    whole, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
    return _Rows(whole, whole, whole, whole, whole, flags, flags, np.empty(0))


def _beta_deg(batch: Batch, earth: Occluder, ends_ms: Ints) -> Array:
    """Give the least and greatest angle between Sun and orbital plane, positive towards r x v [deg].

    It is sampled every six hours and at the end, whatever grid the search uses.
    """
    times = [np.append(np.arange(0.0, end / 1000, BETA_STEP_S), end / 1000) for end in ends_ms.tolist()]
    counts = [len(t) for t in times]
    begin = np.cumsum([0, *counts[:-1]])
    t_s = np.concatenate(times)
    (rx, ry, rz), (vx, vy, vz) = batch.propagate(np.repeat(np.arange(len(times)), counts), t_s)
    (sx, sy, sz, _), *_ = earth.sun.at(batch.start_ms, t_s, order=0)
    sz = sz / earth.stretch
    hx, hy, hz = ry * vz - rz * vy, rz * vx - rx * vz, rx * vy - ry * vx
    sine = (hx * sx + hy * sy + hz * sz) / np.sqrt(
        (hx * hx + hy * hy + hz * hz) * (sx * sx + sy * sy + sz * sz)
    )
    ends = np.stack([np.minimum.reduceat(sine, begin), np.maximum.reduceat(sine, begin)])
    return np.degrees(np.arcsin(np.clip(ends, -1.0, 1.0)))


def _intervals(batch: Batch, track: Track, wanted: tuple[Depth, ...], ends_ms: Ints) -> list[_Rows]:
    """Find one occluder's intervals: bracket, refine, pair, round."""
    named = [depth for depth in wanted if depth.hidden > 0 or depth.name == "penumbra"]
    found = find_brackets(batch, track, named, EARTH_PARTS if track.occluder.centre is None else MOON_PARTS)
    guess_s = guess_contacts(track, named, found)
    satellite = batch.satellite_of(track.cell[found.k])
    order = np.argsort(satellite * (2.0 * batch.t_s.max()) + guess_s, kind="stable")
    which, satellite, guess_s = found.which[order], satellite[order], guess_s[order]
    entering = (found.low_km >= 0)[order]
    start_s, step_s = track.start_s[found.k], track.step_s[found.k]
    low_s = (start_s + (found.low - found.slack[0]) * step_s)[order]
    high_s = (start_s + (found.high + found.slack[1]) * step_s)[order]
    t_s = refine(batch, track.occluder, named, which, satellite, entering, guess_s, low_s, high_s)
    pairs: dict[str, _Pairs] = {}
    for i, depth in enumerate(named):
        mine = which == i
        ends = (found.inside_first[i], found.inside_last[i])
        pairs[depth.name] = _pair(batch, track, *ends, satellite[mine], t_s[mine], entering[mine], ends_ms)
    hidden = _max_obscuration(batch, track, pairs["penumbra"], pairs["umbra"])
    if len(named) < len(wanted):  # a gap that begins as soon as anything is hidden
        pairs["gap"] = pairs["penumbra"]
    return [_rounded(track.occluder, name, some, hidden) for name, some in pairs.items()]


@dataclass(frozen=True, eq=False)
class _Pairs:
    satellite: Ints
    start_s: Array
    stop_s: Array
    cut_start: NDArray[np.bool_]
    cut_stop: NDArray[np.bool_]


def _pair(
    batch: Batch,
    track: Track,
    inside_first: NDArray[np.bool_],
    inside_last: NDArray[np.bool_],
    satellite: Ints,
    t_s: Array,
    entering: NDArray[np.bool_],
    ends_ms: Ints,
) -> _Pairs:
    """Pair entering with leaving contacts; the ends of the span stand in where a shadow is cut."""
    begins = track.valid & (track.cell == batch.first[batch.satellite_of(track.cell)])
    finishes = track.valid & (track.cell + 2 == batch.first[batch.satellite_of(track.cell) + 1])
    cut_in = batch.satellite_of(track.cell[begins & inside_first])
    cut_out = batch.satellite_of(track.cell[finishes & inside_last])
    start_satellite = np.concatenate([cut_in, satellite[entering]])
    stop_satellite = np.concatenate([satellite[~entering], cut_out])
    start = np.concatenate([np.zeros(len(cut_in)), t_s[entering]])
    stop = np.concatenate([t_s[~entering], ends_ms[cut_out] / 1000])
    cut_start = np.arange(len(start)) < len(cut_in)
    cut_stop = np.arange(len(stop)) >= len(stop) - len(cut_out)
    starts = np.argsort(start_satellite, kind="stable")  # rows come in order of time; cuts go first or last
    stops = np.argsort(stop_satellite, kind="stable")
    if len(starts) != len(stops) or np.any(start_satellite[starts] != stop_satellite[stops]):
        raise ContactError(
            f"contacts with the {track.occluder.name}'s shadow do not alternate between entering and "
            "leaving; please report the element sets and the span"
        )
    return _Pairs(start_satellite[starts], start[starts], stop[stops], cut_start[starts], cut_stop[stops])


def _rounded(occluder: Occluder, name: str, pairs: _Pairs, hidden: Array) -> _Rows:
    """Round to whole milliseconds, half to even, and drop what then is empty."""
    start, stop = (np.rint(t * 1000).astype(np.int64) for t in (pairs.start_s, pairs.stop_s))
    n = len(start)
    rows = _Rows(
        pairs.satellite,
        np.full(n, OCCLUDERS.index(occluder.name)),
        np.full(n, DEPTHS.index(name)),
        start,
        stop,
        pairs.cut_start,
        pairs.cut_stop,
        hidden if name == "penumbra" else np.full(n, np.nan),
    )
    return rows.take(stop > start)


def _max_obscuration(batch: Batch, track: EarthTrack | MoonTrack, penumbra: _Pairs, umbra: _Pairs) -> Array:
    """Give each penumbra interval's greatest hidden fraction; 1 where it holds an umbra."""
    hidden = np.ones(len(penumbra.satellite))
    if track.occluder.cylinder:
        return hidden
    span = 4.0 * (batch.t_s.max() + 1.0)  # satellites follow one another on one axis of time
    begins = penumbra.satellite * span + penumbra.start_s
    holder = np.searchsorted(begins, umbra.satellite * span + umbra.start_s + 1e-6, side="right") - 1
    partial = np.ones(len(hidden), bool)
    partial[holder[holder >= 0]] = False
    rows = np.flatnonzero(partial)
    if not len(rows):
        return hidden
    satellite, start, stop = penumbra.satellite[rows], penumbra.start_s[rows], penumbra.stop_s[rows]
    cells_begin = batch.satellite_of(track.cell) * span + track.start_s

    def shown(t_s: Array, satellite: Ints) -> Array:
        k = np.clip(np.searchsorted(cells_begin, satellite * span + t_s, side="right") - 1, 0, None)
        u = (t_s - track.start_s[k]) / track.step_s[k]
        return -obscuration(track.occluder, *track.at(k, u))

    points = 17
    fractions = np.linspace(0.0, 1.0, points)[:, None]
    every = (start + (stop - start) * fractions).ravel()
    best = np.argmin(shown(every, np.tile(satellite, points)).reshape(points, -1), axis=0)
    low = start + (stop - start) * np.maximum(best - 1, 0) / (points - 1)
    high = start + (stop - start) * np.minimum(best + 1, points - 1) / (points - 1)
    t_s = golden_minimum(lambda t: shown(t, satellite), low, high, 18)
    greatest = np.zeros(len(rows))
    for instant in (start, t_s, stop):  # the ends count where the span cuts the interval
        r, v = batch.propagate(satellite, instant)
        x, q, sun = track.occluder.motion(batch.start_ms, instant, r, v, acceleration(*r, *v)[0])
        greatest = np.maximum(greatest, obscuration(track.occluder, x[0], q[0], sun))
    hidden[rows] = greatest
    return hidden
