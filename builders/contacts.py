"""Shadow intervals of satellites: when each is inside the penumbra, half-lit and umbra boundaries.

SGP4 states on a coarse grid and polynomials between them bracket every contact (`search`); here the
contacts are refined on SGP4 itself to 1e-9 s and paired into intervals of whole milliseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sgp4.api import Satrec

from orbittrace_data.errors import FailedError, InputError

from .element_set import ElementSet
from .propagation import acceleration, describe_error, grid, satrec, states
from .search import (
    Array,
    Batch,
    Ints,
    Track,
    _golden_minimum,
    columns,
    earth_track,
    find_brackets,
    guess_contacts,
    moon_track,
    samples,
)
from .shadow import (
    Depth,
    Occluder,
    ShadowModel,
    Vector,
    depths,
    obscuration,
    occluders,
    signed_distance_rates,
)

POINTS_PER_REV = 6
EARTH_PARTS, MOON_PARTS = 4, 12  # samples a cell
NODES_PER_BATCH = 16_384  # arrays of 128 kB: they stay in the cache
TOLERANCE_S = 1e-9
LOW_KM = 6_600.0  # below this radius SGP4 can fail between two nodes

OCCLUDERS = ("earth", "moon")
DEPTHS = ("gap", "half", "penumbra", "umbra")  # sorted, as the rows are


class SpanError(InputError):
    """A span that cannot be searched."""


class ContactError(FailedError):
    """Contacts that do not alternate between entering and leaving."""


@dataclass(frozen=True, eq=False)
class Shadows:
    """Intervals inside shadow boundaries, flat parallel arrays sorted by satellite, start, occluder, depth.

    Times are milliseconds from the span's start, half-open [start, stop); ``cut_start`` and ``cut_stop`` say
    that the span's end, not a contact, bounds the interval. ``max_obscuration`` is given for the
    penumbra rows, NaN elsewhere. Per satellite: until when its positions are known and why no longer ("" if
    they are to the end), and the least and greatest beta angle over the grid.
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
    tables: list[dict[str, NDArray]] = []
    for members, batch, ends, reasons in _batches(element_sets, start_ms, span_ms):
        known[members] = ends
        for i, reason in zip(members.tolist(), reasons, strict=True):
            failure[i] = reason
        if batch is None:
            continue
        flown = members[ends > 0]
        beta[:, flown] = _beta_deg(batch, bodies[0])
        force = acceleration(*batch.r, *batch.v)
        for body in bodies:
            track = earth_track(batch, body, force) if body.centre is None else moon_track(batch, body, force)
            if track is not None:
                for part in _intervals(batch, track, wanted, ends[ends > 0]):
                    part["satellite"] = flown[part["satellite"]]
                    tables.append(part)
    rows = {name: np.concatenate([np.empty(0, kind), *(p[name] for p in tables)]) for name, kind in _ROWS}
    order = np.lexsort((rows["depth"], rows["occluder"], rows["start_ms"], rows["satellite"]))
    rows = {name: column[order] for name, column in rows.items()}
    rows["occluder"] = np.array(OCCLUDERS)[rows["occluder"]]
    rows["depth"] = np.array(DEPTHS)[rows["depth"]]
    return Shadows(
        **rows, known_until_ms=known, failure=tuple(failure), beta_min_deg=beta[0], beta_max_deg=beta[1]
    )


_ROWS = (
    ("satellite", np.int64),
    ("occluder", np.int64),
    ("depth", np.int64),
    ("start_ms", np.int64),
    ("stop_ms", np.int64),
    ("cut_start", np.bool_),
    ("cut_stop", np.bool_),
    ("max_obscuration", np.float64),
)


def _batches(
    element_sets: Sequence[ElementSet], start_ms: int, span_ms: int
) -> Iterator[tuple[Ints, Batch | None, Ints, list[str]]]:
    """Propagate satellites to their grids, a few at a time: members, states, known until, reasons."""
    members: list[int] = []
    flights: list[tuple[Satrec, Array, Array, Array]] = []
    ends: list[int] = []
    reasons: list[str] = []
    nodes = 0
    for i, element_set in enumerate(element_sets):
        flight, end, reason = _fly(satrec(element_set), start_ms, span_ms)
        members.append(i)
        ends.append(end)
        reasons.append(reason)
        if flight is not None:
            flights.append(flight)
            nodes += len(flight[1])
        if nodes >= NODES_PER_BATCH or i == len(element_sets) - 1:
            yield np.array(members), _gather(flights, start_ms), np.array(ends), reasons
            members, flights, ends, reasons, nodes = [], [], [], [], 0


def _gather(flights: list[tuple[Satrec, Array, Array, Array]], start_ms: int) -> Batch | None:
    if not flights:
        return None
    models, t_s, r, v = zip(*flights, strict=True)
    first = np.cumsum([0, *map(len, t_s)])
    return Batch(
        models, start_ms, first, np.concatenate(t_s), columns(np.concatenate(r)), columns(np.concatenate(v))
    )


def _fly(
    model: Satrec, start_ms: int, span_ms: int
) -> tuple[tuple[Satrec, Array, Array, Array] | None, int, str]:
    """Propagate one satellite to its grid, as far as SGP4 carries it."""
    end_ms, reason = span_ms, ""
    while end_ms > 0:
        t_s = grid(model, start_ms, end_ms / 1000, POINTS_PER_REV)
        error, r, v = states(model, start_ms, t_s)
        if not error.any() and (r * r).sum(axis=1).min() < LOW_KM**2:
            fine_s = np.unique(np.concatenate([t_s, np.arange(0.0, end_ms / 1000, 60.0)]))
            fine_error = states(model, start_ms, fine_s)[0]
            if fine_error.any():
                t_s, error = fine_s, fine_error
        if not error.any():
            return (model, t_s, r, v), end_ms, reason
        bad = int(np.argmax(error > 0))
        reason = describe_error(int(error[bad]))
        if bad == 0:
            break
        good_ms, bad_ms = int(t_s[bad - 1] * 1000), int(np.ceil(t_s[bad] * 1000))
        while bad_ms - good_ms > 1:
            middle = (good_ms + bad_ms) // 2
            if states(model, start_ms, np.array([middle / 1000]))[0][0]:
                bad_ms = middle
            else:
                good_ms = middle
        end_ms = min(good_ms, end_ms - 1)
    return None, 0, reason


def _beta_deg(batch: Batch, earth: Occluder) -> Array:
    """Give the least and greatest angle between Sun and orbital plane, positive towards r x v [deg]."""
    (sx, sy, sz, _), *_ = earth.sun.at(batch.start_ms, batch.t_s, order=0)
    sz = sz / earth.stretch
    (rx, ry, rz), (vx, vy, vz) = batch.r, batch.v
    hx, hy, hz = ry * vz - rz * vy, rz * vx - rx * vz, rx * vy - ry * vx
    sine = (hx * sx + hy * sy + hz * sz) / np.sqrt(
        (hx * hx + hy * hy + hz * hz) * (sx * sx + sy * sy + sz * sz)
    )
    begin = batch.first[:-1]
    ends = np.stack([np.minimum.reduceat(sine, begin), np.maximum.reduceat(sine, begin)])
    return np.degrees(np.arcsin(np.clip(ends, -1.0, 1.0)))


def _intervals(
    batch: Batch, track: Track, wanted: tuple[Depth, ...], ends_ms: Ints
) -> list[dict[str, NDArray]]:
    """Find one occluder's intervals: bracket, refine, pair, round."""
    x, q = samples(track, EARTH_PARTS if track.occluder.centre is None else MOON_PARTS)
    named = [depth for depth in wanted if depth.hidden > 0 or depth.name == "penumbra"]
    found = [find_brackets(batch, track, depth, x, q) for depth in named]
    which = np.concatenate([np.full(len(b.k), i) for i, b in enumerate(found)])
    k = np.concatenate([b.k for b in found])
    low = np.concatenate([b.low for b in found])
    high = np.concatenate([b.high for b in found])
    entering = np.concatenate([b.entering for b in found])
    guess = np.concatenate([guess_contacts(track, d, b) for d, b in zip(named, found, strict=True)])
    satellite = batch.satellite_of(track.cell[k])
    order = np.lexsort((guess, satellite))
    which, k, entering, satellite, guess = (p[order] for p in (which, k, entering, satellite, guess))
    low_s = track.start_s[k] + low[order] * track.step_s[k]
    high_s = track.start_s[k] + high[order] * track.step_s[k]
    t_s = refine(batch, track.occluder, named, which, satellite, entering, guess, low_s, high_s)
    parts = []
    for i, depth in enumerate(named):
        mine = which == i
        pairs = _pair(
            batch,
            track,
            found[i].inside_first,
            found[i].inside_last,
            satellite[mine],
            t_s[mine],
            entering[mine],
            ends_ms,
        )
        parts.append((depth.name, pairs))
    penumbra, umbra = dict(parts)["penumbra"], dict(parts)["umbra"]
    hidden = _max_obscuration(batch, track, penumbra, umbra)
    if any(depth.hidden == 0 and depth.name == "gap" for depth in wanted):
        parts.append(("gap", penumbra))
    return [_rounded(track.occluder, name, pairs, hidden) for name, pairs in parts]


def refine(
    batch: Batch,
    occluder: Occluder,
    named: Sequence[Depth],
    which: Ints,
    satellite: Ints,
    entering: NDArray[np.bool_],
    guess_s: Array,
    low_s: Array,
    high_s: Array,
) -> Array:
    """Refine contacts on SGP4 to 1e-9 s, rows sorted by satellite and time.

    SGP4's velocity is not quite the derivative of its position (up to 1e-5 of it in low orbits), which alone
    would cost each contact another evaluation. The contacts of penumbra, half and umbra lie seconds
    apart: the chord to the nearest one corrects the velocity, and one evaluation each is enough.

    Returns
    -------
    ndarray, shape (n,)
        Times [s].
    """
    t_s, low, high = guess_s.copy(), low_s.copy(), high_s.copy()
    sign = np.where(entering, 1.0, -1.0)
    active = np.arange(len(t_s))
    last: tuple[Array, Vector, Vector, Vector] | None = None
    for _ in range(70):
        if not len(active):
            break
        now = t_s[active]
        r, v = batch.propagate(satellite[active], now)
        a, _ = acceleration(*r, *v)
        here = (now, r, v, a)
        if last is None:
            partner = _nearest(satellite, now)
            there = (
                now[partner],
                *(tuple(c[partner] for c in vector) for vector in (r, v, a)),
            )
        else:
            there = last
        v, doubt = _corrected_velocity(here, there)
        x, q, sun = occluder.motion(batch.start_ms, now, r, v, a)
        g, g1, g2 = np.empty_like(now), np.empty_like(now), np.empty_like(now)
        for i, depth in enumerate(named):
            mine = np.flatnonzero(which[active] == i)
            if len(mine):
                g[mine], g1[mine], g2[mine] = signed_distance_rates(
                    occluder, depth, [p[mine] for p in x], [p[mine] for p in q], sun[mine]
                )
        before = sign[active] * g > 0
        low[active] = np.where(before, np.maximum(now, low[active]), low[active])
        high[active] = np.where(before, high[active], np.minimum(now, high[active]))
        with np.errstate(divide="ignore", invalid="ignore"):
            step = -g / g1
            step = step - g2 * step * step / (2 * g1)
            pull = np.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])
            length = np.abs(step)
            error = length * (doubt + 1e-6 * np.abs(g1) + length * 1e-2 * pull) / np.abs(g1)
        new = now + step
        wild = ~((new >= low[active] - 1e-3) & (new <= high[active] + 1e-3))
        new = np.where(wild, (low[active] + high[active]) / 2, new)
        t_s[active] = new
        done = ~wild & (error < TOLERANCE_S / 2)
        done |= high[active] - low[active] < TOLERANCE_S / 2
        more = np.flatnonzero(~done)
        last = (now[more], *(tuple(c[more] for c in vector) for vector in (here[1], here[2], here[3])))
        active = active[more]
    return t_s


def _nearest(satellite: Ints, t_s: Array) -> Ints:
    """Find each row's neighbour in time of the same satellite, itself if it has none."""
    n = len(t_s)
    index = np.arange(n)
    gap = np.full(n + 1, np.inf)
    if n > 1:
        gap[1:-1] = np.where(satellite[1:] == satellite[:-1], t_s[1:] - t_s[:-1], np.inf)
    index = np.where(gap[:-1] <= gap[1:], index - 1, index + 1)
    return np.where(np.isinf(np.minimum(gap[:-1], gap[1:])), np.arange(n), index)


def _corrected_velocity(
    here: tuple[Array, Vector, Vector, Vector], there: tuple[Array, Vector, Vector, Vector]
) -> tuple[Vector, Array]:
    """Correct SGP4's velocity by the chord to a near state; and how far it may still be off [km/s]."""
    delta = there[0] - here[0]
    (_, r, v, a), (_, r_there, v_there, a_there) = here, there
    pull2 = a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
    radius2 = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    turn = np.sqrt(np.sqrt(pull2 / radius2)) * np.abs(delta)  # [rad]
    usable = (turn < 0.1) & (np.abs(delta) > 1e-5)
    over = 1 / np.where(usable, delta, 1.0)
    speed = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    corrected, miss2 = [], np.zeros_like(delta)
    for i in range(3):
        miss = (r_there[i] - r[i]) * over - (v[i] + v_there[i]) / 2 + (a_there[i] - a[i]) * delta / 12
        miss = np.where(usable, miss, 0.0)
        corrected.append(v[i] + miss)
        miss2 = miss2 + miss * miss
    doubt = np.where(
        usable,
        np.sqrt(miss2) * turn + speed * turn**4 / 500 + 1e-11 * np.abs(over),
        1e-3 * speed,
    )
    return (corrected[0], corrected[1], corrected[2]), doubt


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
    starts = np.lexsort((start, start_satellite))
    stops = np.lexsort((stop, stop_satellite))
    if len(starts) != len(stops) or np.any(start_satellite[starts] != stop_satellite[stops]):
        raise ContactError(
            f"contacts with the {track.occluder.name}'s shadow do not alternate between entering and "
            "leaving; please report the element sets and the span"
        )
    return _Pairs(start_satellite[starts], start[starts], stop[stops], cut_start[starts], cut_stop[stops])


def _rounded(occluder: Occluder, name: str, pairs: _Pairs, hidden: Array) -> dict[str, NDArray]:
    """Round to whole milliseconds, half to even, and drop what then is empty."""
    start, stop = (np.rint(t * 1000).astype(np.int64) for t in (pairs.start_s, pairs.stop_s))
    keep = stop > start
    n = int(keep.sum())
    return {
        "satellite": pairs.satellite[keep],
        "occluder": np.full(n, OCCLUDERS.index(occluder.name)),
        "depth": np.full(n, DEPTHS.index(name)),
        "start_ms": start[keep],
        "stop_ms": stop[keep],
        "cut_start": pairs.cut_start[keep],
        "cut_stop": pairs.cut_stop[keep],
        "max_obscuration": hidden[keep] if name == "penumbra" else np.full(n, np.nan),
    }


def _max_obscuration(batch: Batch, track: Track, penumbra: _Pairs, umbra: _Pairs) -> Array:
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
        return -obscuration(track.occluder, *track.at(k, u))

    points = 33
    at = [shown(start + (stop - start) * i / (points - 1)) for i in range(points)]
    best = np.argmin(np.stack(at), axis=0)
    low = start + (stop - start) * np.maximum(best - 1, 0) / (points - 1)
    high = start + (stop - start) * np.minimum(best + 1, points - 1) / (points - 1)
    t_s = _golden_minimum(shown, low, high)
    greatest = np.zeros(len(rows))
    for instant in (start, t_s, stop):  # the ends count where the span cuts the interval
        r, v = batch.propagate(satellite, instant)
        x, q, sun = track.occluder.motion(batch.start_ms, instant, r, v, acceleration(*r, *v)[0])
        greatest = np.maximum(greatest, obscuration(track.occluder, x[0], q[0], sun))
    hidden[rows] = greatest
    return hidden
