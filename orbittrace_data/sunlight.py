"""Sunlight on a satellite: the visible fraction of the solar disc as exact straight pieces.

The contacts of a shadow fix the fraction at instants: 1 where penumbra begins and ends (P), one half at
the half-lit contacts (H), 0 from one umbral contact (U) to the other. Between neighbouring contacts it is
taken as a straight line. A straight edge that moves evenly over a disc hides (acos x - x sqrt(1 - x^2)) / pi
of it: the lines meet that at P, H and U, leave it by at most 0.058 between, and give the same energy over
a whole crossing, as both are symmetric about H.
A shadow without umbra dips to 1 - max_obscuration in the middle of its deepest known interval. Where two
occluders hide the Sun at once, the deeper one counts (as the trace's gaps are the union of both).
A contact that the span cuts off counts as lying at the cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from .errors import InputError

PPM = 1_000_000  # fractions are whole millionths: max_obscuration is stored to six decimals


class ShadowTableError(InputError):
    """Shadow intervals that are not nested penumbra, half-lit, umbra."""


@dataclass(frozen=True)
class Piece:
    """One straight piece of the visible fraction over [start_ms, stop_ms).

    Its mean over millisecond i from the start is exactly ``(slope * i + offset) / scale``, in integers.
    """

    start_ms: int
    stop_ms: int
    slope: int
    offset: int
    scale: int

    @property
    def length_ms(self) -> int:
        """Number of milliseconds."""
        return self.stop_ms - self.start_ms

    def harvest(self, i: int, power_uw: int) -> int:
        """Return the energy of millisecond i at ``power_uw`` in full sunlight, whole nanojoules."""
        return power_uw * (self.slope * i + self.offset) // self.scale

    def total(self, i: int, n: int, power_uw: int) -> int:
        """Return the sum of `harvest` over the n milliseconds from i [nJ]."""
        return floor_sum(n, power_uw * self.slope, power_uw * (self.slope * i + self.offset), self.scale)

    def crop(self, start_ms: int, stop_ms: int) -> "Piece":
        """Return the part within [start_ms, stop_ms)."""
        offset = self.offset + self.slope * (start_ms - self.start_ms)
        return replace(self, start_ms=start_ms, stop_ms=stop_ms, offset=offset)


def line(start_ms: int, stop_ms: int, before_ppm: int, after_ppm: int) -> Piece:
    """Return the straight piece between two known fractions [millionths].

    Examples
    --------
    >>> piece = line(0, 4, 0, 1_000_000)
    >>> [piece.harvest(i, 1000) for i in range(4)]
    [125, 375, 625, 875]
    """
    n = stop_ms - start_ms
    change = after_ppm - before_ppm
    return Piece(start_ms, stop_ms, 2 * change, 2 * n * before_ppm + change, 2 * n * PPM)


def floor_sum(n: int, slope: int, offset: int, scale: int) -> int:
    """Sum floor((slope * i + offset) / scale) over i in [0, n) exactly, in O(log) steps.

    The Euclid-like reduction of Graham, Knuth & Patashnik, Concrete Mathematics (1994), section 3.5.

    Examples
    --------
    >>> floor_sum(5, 3, 1, 4) == sum((3 * i + 1) // 4 for i in range(5))
    True
    """
    if slope < 0:
        slope, offset = -slope, offset + slope * (n - 1)  # the same terms, counted from the end
    total = 0
    while n > 0:
        total += (slope // scale) * (n * (n - 1) // 2) + (offset // scale) * n
        slope, offset = slope % scale, offset % scale
        top = slope * n + offset
        if top < scale:
            break
        n, offset, slope, scale = top // scale, top % scale, scale, slope
    return total


def sunlight(shadows: Mapping[str, Any] | Any, span_ms: int) -> list[Piece]:
    """Turn one satellite's shadow intervals into the visible fraction over [0, span_ms).

    Parameters
    ----------
    shadows : mapping of columns
        ``occluder``, ``depth``, ``start_ms``, ``stop_ms`` [ms] and ``max_obscuration`` of one satellite:
        a `pyarrow.Table`, a dict of arrays, or whatever gives a column by name. Other depths are ignored.
    span_ms : int
        Length of the span [ms].

    Returns
    -------
    list of Piece
        They fill the span without overlap.

    Raises
    ------
    ShadowTableError
        If an interval lies outside the span, or a half-lit or umbral one outside the next lighter one.

    Examples
    --------
    >>> shadow = {"occluder": ["earth"], "depth": ["penumbra"], "start_ms": [2], "stop_ms": [6],
    ...           "max_obscuration": [0.25]}
    >>> [(p.start_ms, p.stop_ms, p.slope > 0, p.slope < 0) for p in sunlight(shadow, 10)]
    [(0, 2, False, False), (2, 4, False, True), (4, 6, True, False), (6, 10, False, False)]
    """
    lines = sorted(_lines(shadows, span_ms), key=lambda piece: piece.start_ms)
    cuts = sorted({0, span_ms, *(p.start_ms for p in lines), *(p.stop_ms for p in lines)})
    pieces, active, coming = [], [], 0
    for start, stop in pairwise(cuts):
        active = [piece for piece in active if piece.stop_ms > start]
        while coming < len(lines) and lines[coming].start_ms == start:
            active.append(lines[coming])
            coming += 1
        if active:
            pieces += _deepest([piece.crop(start, stop) for piece in active])
        else:
            pieces.append(line(start, stop, PPM, PPM))
    return pieces


def _lines(shadows: Any, span_ms: int) -> list[Piece]:
    """Return the pieces of every shadow by itself; they may overlap between occluders."""
    columns = {name: np.asarray(shadows[name]) for name in ("occluder", "depth", "start_ms", "stop_ms")}
    obscuration = np.asarray(shadows["max_obscuration"], np.float64)
    lines = []
    for occluder in sorted(set(columns["occluder"].tolist())):
        rows = {}
        for depth in ("penumbra", "half", "umbra"):
            at = np.flatnonzero((columns["occluder"] == occluder) & (columns["depth"] == depth))
            at = at[np.argsort(columns["start_ms"][at], kind="stable")]
            starts, stops = columns["start_ms"][at].tolist(), columns["stop_ms"][at].tolist()
            rows[depth] = list(zip(starts, stops, obscuration[at].tolist(), strict=True))
        halves, umbras = iter(rows["half"]), iter(rows["umbra"])
        half, umbra = next(halves, None), next(umbras, None)
        for start, stop, hidden in rows["penumbra"]:
            inside = []
            while half and half[1] <= stop:
                darkest = []
                while umbra and umbra[1] <= half[1]:
                    darkest.append(umbra)
                    umbra = next(umbras, None)
                inside.append((half, darkest))
                half = next(halves, None)
            lines += _penumbra(start, stop, hidden, inside, span_ms, f"{occluder}'s shadow")
        left = half or umbra
        if left:
            raise ShadowTableError(
                f"{occluder}'s shadow: the interval [{left[0]}, {left[1]}) ms lies in no lighter one: "
                "give the whole shadows table of one satellite, penumbra, half and umbra"
            )
    return lines


def _penumbra(start, stop, hidden, halves, span_ms, what) -> list[Piece]:
    """Join the known points of one penumbra by lines."""
    if not 0 <= start < stop <= span_ms:
        raise ShadowTableError(
            f"{what}: [{start}, {stop}) ms reaches outside the span [0, {span_ms}) ms: "
            "take the shadows and the span of the same trace"
        )
    if not any(umbras for _, umbras in halves) and not 0 <= hidden <= 1:
        raise ShadowTableError(
            f"{what}: [{start}, {stop}) ms has no umbra and max_obscuration {hidden}: it must lie in [0, 1]"
        )
    darkest = PPM - round(hidden * PPM) if 0 <= hidden <= 1 else 0
    points = [(start, PPM)]
    longest = max((half[1] - half[0] for half, _ in halves), default=0)
    for (a, b, _), umbras in halves:
        lighter_start = points[-1][0]
        if a < lighter_start or any(u[0] < a for u in umbras):
            raise ShadowTableError(f"{what}: [{a}, {b}) ms is not inside the lighter interval around it")
        points.append((a, PPM // 2))
        for u in umbras:
            points += [(u[0], 0), (u[1], 0)]
        if not umbras:  # inside, the fraction is under one half, whatever rounding says
            points.append(((a + b) // 2, min(darkest if b - a == longest else PPM, PPM // 2 - 1)))
        points.append((b, PPM // 2))
    if not halves:
        points.append(((start + stop) // 2, darkest))
    points.append((stop, PPM))
    # Contacts that fall on one millisecond (a cut, or a crossing under 1 ms) make a jump, not a line.
    return [line(t, u, before, after) for (t, before), (u, after) in pairwise(points) if t < u]


def _deepest(pieces: list[Piece]) -> list[Piece]:
    """Return the lower envelope of lines over one common interval."""
    lowest = [pieces[0]]
    for other in pieces[1:]:
        lowest = [part for one in lowest for part in _lower(one, other.crop(one.start_ms, one.stop_ms))]
    return lowest


def _lower(a: Piece, b: Piece) -> list[Piece]:
    """Return the lower of two lines, cut where they cross (compared exactly, by cross products)."""
    slope = a.slope * b.scale - b.slope * a.scale
    offset = a.offset * b.scale - b.offset * a.scale  # a - b at millisecond 0, times a positive number
    last = a.length_ms - 1
    if max(offset, offset + slope * last) <= 0:
        return [a]
    if min(offset, offset + slope * last) >= 0:
        return [b]
    # The first millisecond on the other side of the crossing.
    cross = a.start_ms + (-offset // slope + 1 if slope > 0 else -(offset // slope))
    first, second = (a, b) if slope > 0 else (b, a)
    return [first.crop(a.start_ms, cross), second.crop(cross, a.stop_ms)]
