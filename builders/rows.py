"""One batch of satellites, from grid to rows: bracket, refine, pair, round; and the greatest obscuration."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from .batches import Array, Batch, Ints, fly, gather
from .passages import Passages, passages
from .refinement import ContactError, refine
from .roots import greatest_at
from .search import find_brackets, guess_contacts
from .shadow import Depth, Occluder, obscuration
from .tracks import EarthTrack, MoonTrack, Track, earth_track, moon_track

EARTH_PARTS, MOON_PARTS = 5, 16  # samples a cell
DENSITIES = (1, 4, 16)  # of the grid, where SGP4 does not run smoothly

OCCLUDERS = ("earth", "moon")
DEPTHS = ("gap", "half", "penumbra", "umbra")  # sorted, as the rows are


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of `Shadows`, with numbers for occluder and depth."""

    satellite: Ints
    occluder: Ints
    depth: Ints
    start_ms: Ints
    stop_ms: Ints
    cut_start: NDArray[np.bool_]
    cut_stop: NDArray[np.bool_]
    max_obscuration: Array

    def take(self, index: Ints | NDArray[np.bool_]) -> "Rows":
        """Choose rows."""
        return Rows(*(getattr(self, f.name)[index] for f in fields(self)))


def stack(tables: Sequence[Rows]) -> Rows:
    """Put tables one below the other."""
    return Rows(*(np.concatenate([getattr(rows, f.name) for rows in tables]) for f in fields(Rows)))


def no_rows() -> Rows:
    """Give a table without rows, whose columns have their types."""
    whole, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
    return Rows(whole, whole, whole, whole, whole, flags, flags, np.empty(0))


def search(
    batch: Batch, body: Occluder, wanted: tuple[Depth, ...], ends_ms: Ints
) -> tuple[Rows, dict[int, str]]:
    """Find one body's rows.

    Parameters
    ----------
    batch : Batch
        For the Moon, `Passages`.
    body : Occluder
    wanted : tuple of Depth
    ends_ms : ndarray of int64, shape (satellites,)
        Until when each satellite is known.

    Returns
    -------
    rows : Rows
        In no order.
    lost : dict
        Satellites at which the search fails, with the reason.
    """
    try:
        return _rows(batch, body, wanted, ends_ms), {}
    except ContactError:  # on polynomials that do not follow SGP4: each satellite alone, on a denser grid
        return _search_singly(batch, body, wanted, ends_ms)


def _search_singly(
    batch: Batch, body: Occluder, wanted: tuple[Depth, ...], ends_ms: Ints
) -> tuple[Rows, dict[int, str]]:
    parts, lost = [no_rows()], {}
    for i, (model, end_ms) in enumerate(zip(batch.models, ends_ms.tolist(), strict=True)):
        for density in DENSITIES:
            flight, _, _ = fly(model, batch.start_ms, end_ms, density)
            alone = gather([flight] if flight is not None else [], batch.start_ms)
            if alone is None:
                continue
            if body.centre is not None:
                alone = passages(alone, body)
            try:
                rows = _rows(alone, body, wanted, ends_ms[i : i + 1])
            except ContactError as error:
                lost[i] = str(error)
            else:
                lost.pop(i, None)
                parts.append(replace(rows, satellite=rows.satellite + i))
                break
    return stack(parts), lost


def in_order(rows: Rows, span_ms: int) -> Rows:
    """Sort rows by satellite, start, occluder and depth."""
    key = (rows.satellite * (span_ms + 1) + rows.start_ms) * len(OCCLUDERS) + rows.occluder
    return rows.take(np.argsort(key * len(DEPTHS) + rows.depth))


def _rows(batch: Batch, body: Occluder, wanted: tuple[Depth, ...], ends_ms: Ints) -> Rows:
    if not isinstance(batch, Passages):
        return stack(_intervals(batch, earth_track(batch, body), wanted, ends_ms))
    if not len(batch.cell):
        return no_rows()
    return stack(_intervals(batch, moon_track(batch, body), wanted, ends_ms))


def _intervals(
    batch: Batch, track: EarthTrack | MoonTrack, wanted: tuple[Depth, ...], ends_ms: Ints
) -> list[Rows]:
    """Find one occluder's intervals: bracket, refine, pair, round."""
    named = [depth for depth in wanted if depth.hidden > 0 or depth.name == "penumbra"]
    found = find_brackets(batch, track, named, EARTH_PARTS if track.occluder.centre is None else MOON_PARTS)
    guess_s = guess_contacts(track, named, found)
    satellite = batch.satellite_of(track.cell[found.k])
    order = np.argsort(satellite * (2.0 * batch.t_s.max()) + guess_s, kind="stable")
    which, satellite, guess_s = found.which[order], satellite[order], guess_s[order]
    entering = found.entering[order]
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
    ends_s = ends_ms[batch.satellite_of(track.cell)] / 1000
    begins = track.valid & (track.start_s == 0.0)
    finishes = track.valid & (batch.t_s[track.cell + 1] == ends_s)
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


def _rounded(occluder: Occluder, name: str, pairs: _Pairs, hidden: Array) -> Rows:
    """Round to whole milliseconds, half to even, and drop what then is empty."""
    start, stop = (np.rint(t * 1000).astype(np.int64) for t in (pairs.start_s, pairs.stop_s))
    n = len(start)
    rows = Rows(
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

    def shown(t_s: Array) -> Array:
        k = np.clip(np.searchsorted(cells_begin, satellite * span + t_s, side="right") - 1, 0, None)
        u = (t_s - track.start_s[k]) / track.step_s[k]
        return obscuration(track.occluder, *track.at(k, u))

    t_s = greatest_at(shown, start, stop)
    greatest = np.zeros(len(rows))
    cut_start, cut_stop = np.flatnonzero(penumbra.cut_start[rows]), np.flatnonzero(penumbra.cut_stop[rows])
    for instant, some in ((t_s, np.arange(len(rows))), (start, cut_start), (stop, cut_stop)):
        r, _ = batch.propagate(satellite[some], instant[some])
        place = track.occluder.place(batch.start_ms, instant[some], r)
        greatest[some] = np.maximum(greatest[some], obscuration(track.occluder, *place))
    hidden[rows] = greatest
    return hidden
