"""Shadow intervals of satellites: when each is inside the penumbra, half-lit and umbra boundaries.

SGP4 states on a coarse grid and polynomials between them bracket every contact (`search`); here the
contacts are refined on SGP4 itself to 1e-9 s and paired into intervals of whole milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..trace import DAY_MS
from .batches import NODES_PER_BATCH, Array, Batch, Ints, batches
from .element_set import ElementSet
from .passages import Passages, join, passages
from .rows import DEPTHS, OCCLUDERS, in_order, no_rows, search, stack
from .shadow import Occluder, ShadowModel, depths, occluders

BETA_STEP_S = 21_600.0

FIRST_MS = -410_227_200_000  # 1957-01-01: before it there was nothing in orbit
# 2099-12-31: ERFA's Earth (epv00) ends with 2100-01-01T12:00, and the tables of the Sun reach a day beyond a span.
LAST_MS = 4_102_358_400_000


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
        If the span is empty, or does not lie within 1957 to 2099.
    """
    model = ShadowModel() if model is None else model
    check_span(start_ms, span_ms)
    earth, *moons = occluders(model, start_ms, span_ms)
    wanted = depths(model)
    n = len(element_sets)
    known = np.zeros(n, np.int64)
    failure = [""] * n
    beta = np.full((2, n), np.nan)
    tables, lost = [no_rows()], {}
    passing: list[tuple[Passages, Ints, Ints]] = []

    def add(batch: Batch, body: Occluder, who: Ints, ends: Ints) -> None:
        rows, failed = search(batch, body, wanted, ends)
        tables.append(replace(rows, satellite=who[rows.satellite]))
        for i, reason in failed.items():
            lost.setdefault(int(who[i]), reason)

    def add_passing() -> None:
        parts, who, ends = zip(*passing, strict=True)
        add(join(parts), moons[0], np.concatenate(who), np.concatenate(ends))
        passing.clear()

    for members, batch, ends, reasons in batches(element_sets, start_ms, span_ms):
        known[members] = ends
        for i, reason in zip(members.tolist(), reasons, strict=True):
            failure[i] = reason
        if batch is None:
            continue
        flown, ends = members[ends > 0], ends[ends > 0]
        beta[:, flown] = _beta_deg(batch, earth, ends)
        add(batch, earth, flown, ends)
        if moons:
            passing.append((passages(batch, moons[0]), flown, ends))
            if sum(len(part.cell) for part, _, _ in passing) > NODES_PER_BATCH:
                add_passing()
    if passing:
        add_passing()
    rows = stack(tables)
    if lost:
        for i, reason in lost.items():
            known[i], failure[i] = 0, reason
        rows = rows.take(known[rows.satellite] > 0)
    rows = in_order(rows, span_ms)
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


def check_span(start_ms: int, span_ms: int) -> None:
    """Raise a SpanError for a span that is empty, or lies where the Sun and element sets are not known.

    Parameters
    ----------
    start_ms, span_ms : int
        As for `find_shadows`.
    """
    if span_ms <= 0:
        raise SpanError(f"span_ms must be positive, got {span_ms}: ask for at least one millisecond")
    if not FIRST_MS <= start_ms <= LAST_MS - span_ms:
        raise SpanError(
            f"{span_ms / DAY_MS:.6g} days from {_iso(start_ms)} do not lie within 1957-01-01 and 2099-12-31, the dates "
            "for which the Sun's place is known and element sets mean something: choose another start or fewer days"
        )


def _iso(unix_ms: int) -> str:
    """Write Unix milliseconds in ISO 8601, also beyond the years of `datetime`."""
    return f"{np.datetime64(unix_ms, 'ms')}".removesuffix(".000") + "Z"


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
