"""Compare two releases trace by trace: which contacts moved by how much, gaps that appeared or went."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from ..intervals import Intervals
from ..trace import Trace


@dataclass(frozen=True)
class TraceDiff:
    """How trace B differs from trace A.

    Where both have dates that overlap (``same_dates``), gaps over the common time are paired where they
    overlap, and shifts are signed, B less A [ms], a row a pair. Else nothing is paired: satellites
    are elsewhere on other days, and only duty cycles and counts compare.
    """

    trace_id: str
    same_dates: bool
    gaps_a: int
    gaps_b: int
    appeared: int
    vanished: int
    start_shift_ms: np.ndarray
    stop_shift_ms: np.ndarray
    duty_cycle_a: float
    duty_cycle_b: float

    @property
    def median_shift_ms(self) -> float:
        """Median of the boundaries' absolute shifts [ms], 0 where no gap pairs."""
        return float(np.median(self._shifts)) if len(self._shifts) else 0.0

    @property
    def max_shift_ms(self) -> int:
        """Largest absolute shift of a boundary [ms]."""
        return int(self._shifts.max(initial=0))

    @property
    def _shifts(self) -> np.ndarray:
        return np.abs(np.concatenate([self.start_shift_ms, self.stop_shift_ms]))


@dataclass(frozen=True)
class ReleaseDiff:
    """The traces that both releases hold, compared, and those that only one holds."""

    traces: tuple[TraceDiff, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def diff_releases(a: Sequence[Trace], b: Sequence[Trace]) -> ReleaseDiff:
    """Compare two lists of traces by their ids.

    Parameters
    ----------
    a, b : sequences of Trace

    Returns
    -------
    ReleaseDiff
        In the order of ``a``.
    """
    of_a, of_b = {t.trace_id: t for t in a}, {t.trace_id: t for t in b}
    return ReleaseDiff(
        traces=tuple(diff_traces(of_a[i], of_b[i]) for i in of_a if i in of_b),
        only_a=tuple(i for i in of_a if i not in of_b),
        only_b=tuple(i for i in of_b if i not in of_a),
    )


def diff_traces(a: Trace, b: Trace) -> TraceDiff:
    """Compare two traces of one satellite.

    Traces without dates are compared from their starts.

    Examples
    --------
    >>> a = Trace("x", 100, [[10, 20], [50, 60]])
    >>> d = diff_traces(a, Trace("x", 100, [[12, 20], [80, 90]]))
    >>> d.max_shift_ms, d.appeared, d.vanished
    (2, 1, 1)
    """
    offset_ms = 0
    if a.start is not None and b.start is not None:
        offset_ms = (b.start - a.start) // timedelta(milliseconds=1)
    first, last = max(0, offset_ms), min(a.span_ms, offset_ms + b.span_ms)
    same_dates = first < last
    gaps_a, gaps_b = a.gaps, b.gaps
    if same_dates:
        gaps_a = a.crop(first, last).gaps
        gaps_b = b.crop(first - offset_ms, last - offset_ms).gaps
    pairs = overlapping_pairs(gaps_a, gaps_b) if same_dates else np.empty((0, 2), np.int64)
    shifts = gaps_b[pairs[:, 1]] - gaps_a[pairs[:, 0]]
    return TraceDiff(
        trace_id=a.trace_id,
        same_dates=same_dates,
        gaps_a=len(gaps_a),
        gaps_b=len(gaps_b),
        appeared=len(gaps_b) - len(set(pairs[:, 1].tolist())) if same_dates else 0,
        vanished=len(gaps_a) - len(set(pairs[:, 0].tolist())) if same_dates else 0,
        start_shift_ms=shifts[:, 0],
        stop_shift_ms=shifts[:, 1],
        duty_cycle_a=a.duty_cycle,
        duty_cycle_b=b.duty_cycle,
    )


def overlapping_pairs(a: Intervals, b: Intervals) -> np.ndarray:
    """Return index pairs (i, j) for which a[i] and b[j] overlap, shape (n, 2).

    Examples
    --------
    >>> overlapping_pairs(np.array([[0, 5], [9, 12]]), np.array([[4, 10]])).tolist()
    [[0, 0], [1, 0]]
    """
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    last = np.searchsorted(b[:, 0], a[:, 1], side="left")
    counts = np.maximum(last - first, 0)
    i = np.repeat(np.arange(len(a)), counts)
    j = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    return np.stack([i, j], axis=1).astype(np.int64)
