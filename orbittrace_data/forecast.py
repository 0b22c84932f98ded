"""Forecasts that miss: what might happen instead of a trace, and how far two traces lie apart."""

import hashlib
import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from . import intervals
from .errors import InputError
from .plan import Seconds, nanoseconds
from .trace import Trace

MAX_OUTAGES = 1_000_000
_SHIFT, _OUTAGE = 1, 2  # keeps the draws of the two apart under one seed


class ForecastError(InputError):
    """What was given is no way to miss, or two traces that cannot be compared."""


def shift_contacts(trace: Trace, sigma_s: Seconds, seed: int, *, together: bool = True) -> Trace:
    """Move the gaps' boundaries by normal errors: what may happen where the trace is a forecast.

    Old elements err along the track, so that all contacts come early or late together; attitude, drag and
    the battery move each by itself. Boundaries that the span cuts stay; a gap that would end before it
    begins does not happen.

    Parameters
    ----------
    trace : Trace
        The forecast.
    sigma_s : int, float, Fraction or Decimal
        Standard deviation of the error [s].
    seed : int
        Not negative. Each error is drawn by itself, keyed by (seed, contact): a longer trace keeps them.
    together : bool
        One error for all contacts, or one for each.

    Returns
    -------
    Trace

    Raises
    ------
    InputError

    Examples
    --------
    >>> shift_contacts(Trace("demo", 100_000, [[30_000, 40_000]]), 2, seed=0).gaps.tolist()
    [[29832, 39832]]
    """
    sigma_ms = nanoseconds(sigma_s, "sigma_s") / 1e6
    _check_seed(seed)
    draws = 1 if together else trace.gaps.size
    errors = [_normal_ms(_uniform(seed, _SHIFT, i), sigma_ms) for i in range(draws)]
    shape = (1, 1) if together else (-1, 2)
    moved = _moved(trace, np.array(errors, np.int64).reshape(shape))
    return replace(moved, trace_id=f"{trace.trace_id}-shifted-{sigma_ms / 1000:g}s-{seed}")


def likely_shifts(trace: Trace, sigma_s: Seconds, count: int) -> list[Trace]:
    """Return equally likely courses of events where all contacts err together by one normal error.

    The errors are the middles (in probability) of ``count`` equal shares of the distribution: what is
    averaged over them has no noise of a draw in it.

    Parameters
    ----------
    trace : Trace
        The forecast.
    sigma_s : int, float, Fraction or Decimal
        Standard deviation of the error [s].
    count : int
        At least 1; the outermost of 20 lie at 1.96 sigma.

    Returns
    -------
    list of Trace
        The earliest first.

    Raises
    ------
    InputError

    Examples
    --------
    >>> trace = Trace("demo", 100_000, [[30_000, 40_000]])
    >>> [int(shifted.gaps[0, 0]) - 30_000 for shifted in likely_shifts(trace, 2, 3)]
    [-1935, 0, 1935]
    """
    sigma_ms = nanoseconds(sigma_s, "sigma_s") / 1e6
    if count < 1:
        raise ForecastError(f"count must be at least 1, got {count}")
    errors = [_normal_ms((i + 0.5) / count, sigma_ms) for i in range(count)]
    return [
        replace(_moved(trace, np.array([[error]])), trace_id=f"{trace.trace_id}-shifted-by-{error / 1000:g}s")
        for error in errors
    ]


def _normal_ms(probability: float, sigma_ms: float) -> int:
    return round(NormalDist().inv_cdf(probability) * sigma_ms)


def _moved(trace: Trace, errors: NDArray[np.int64]) -> Trace:
    """Move the boundaries of gaps [ms], but for those that the span cuts."""
    cut = (trace.gaps == 0) | (trace.gaps == trace.span_ms)
    gaps = np.clip(trace.gaps + np.where(cut, 0, errors), 0, trace.span_ms)
    return replace(trace, gaps=gaps[gaps[:, 1] > gaps[:, 0]])


def with_outages(trace: Trace, mtbf_s: Seconds, repair_s: Seconds, seed: int) -> Trace:
    """Add random outages to a trace: failures that no forecast holds.

    Parameters
    ----------
    trace : Trace
    mtbf_s : int, float, Fraction or Decimal
        Mean time from one outage's end to the next failure [s], exponentially distributed over wall-clock
        time.
    repair_s : int, float, Fraction or Decimal
        Length of an outage [s].
    seed : int
        Not negative. Each time is drawn by itself, keyed by (seed, number of the outage).

    Returns
    -------
    Trace

    Raises
    ------
    InputError

    Examples
    --------
    >>> with_outages(Trace("demo", 100_000, []), mtbf_s=60, repair_s=5, seed=1).gaps.tolist()
    [[50655, 55655]]
    """
    mtbf_ms, repair_ms = nanoseconds(mtbf_s, "mtbf_s") / 1e6, nanoseconds(repair_s, "repair_s") // 1_000_000
    _check_seed(seed)
    if repair_ms < 1 or trace.span_ms / (mtbf_ms + repair_ms) > MAX_OUTAGES:
        raise ForecastError(
            f"repair_s must be at least a millisecond and the trace hold at most {MAX_OUTAGES} outages, "
            f"got {repair_s!r} s every {mtbf_s!r} s: make them rarer"
        )
    outages, at_ms = [], 0
    while True:
        at_ms += round(-math.log(_uniform(seed, _OUTAGE, len(outages))) * mtbf_ms)
        if at_ms >= trace.span_ms:
            break
        outages.append((at_ms, min(at_ms + repair_ms, trace.span_ms)))
        at_ms += repair_ms
    gaps = np.concatenate([trace.gaps, np.array(outages, np.int64).reshape(-1, 2)])
    return replace(trace, trace_id=f"{trace.trace_id}-outages-{mtbf_ms / 1000:g}s-{seed}", gaps=gaps)


@dataclass(frozen=True, eq=False)
class Misses:
    """How a forecast missed: by how much each gap's boundaries came late, and which gaps have no partner.

    Parameters
    ----------
    at_ms : ndarray of int64, shape (n,)
        When each gap began that both traces hold [ms].
    start_late_ms, stop_late_ms : ndarray of int64, shape (n,)
        Actual minus forecast begin and end [ms]: negative came early.
    unforeseen, absent : ndarray of int64, shape (m, 2)
        Gaps that happened without a forecast, and gaps that were forecast and did not happen [ms].
    """

    at_ms: NDArray[np.int64]
    start_late_ms: NDArray[np.int64]
    stop_late_ms: NDArray[np.int64]
    unforeseen: intervals.Intervals
    absent: intervals.Intervals

    @property
    def margin_ms(self) -> int:
        """The margin that would have saved before every gap that was forecast [ms]."""
        return max(0, int(-self.start_late_ms.min(initial=0)))


def find_misses(forecast: Trace, actual: Trace) -> Misses:
    """Compare two traces of one span gap by gap.

    Two gaps are partners where they overlap each other and no other gap. Gaps that the span cuts have no
    boundary to compare and are left out.

    Parameters
    ----------
    forecast, actual : Trace

    Returns
    -------
    Misses

    Raises
    ------
    ForecastError
        If the spans differ.

    Examples
    --------
    >>> forecast, actual = (Trace("demo", 100, [[20 + late, 30 + late]]) for late in (0, -3))
    >>> find_misses(forecast, actual).start_late_ms.tolist()
    [-3]
    """
    if (forecast.span_ms, forecast.start) != (actual.span_ms, actual.start):
        raise ForecastError(
            f"{forecast.trace_id} and {actual.trace_id} must cover the same span to be compared: "
            "crop them, or build them for one start and length"
        )
    partner, count = _overlapping(actual.gaps, forecast.gaps)
    _, back_count = _overlapping(forecast.gaps, actual.gaps)
    mutual = np.flatnonzero(count == 1)
    mutual = mutual[back_count[partner[mutual]] == 1]
    a, f = actual.gaps[mutual], forecast.gaps[partner[mutual]]
    whole = ((a > 0) & (a < actual.span_ms) & (f > 0) & (f < actual.span_ms)).all(axis=1)
    a, f = a[whole], f[whole]
    return Misses(
        a[:, 0], a[:, 0] - f[:, 0], a[:, 1] - f[:, 1], actual.gaps[count == 0], forecast.gaps[back_count == 0]
    )


def _overlapping(these: intervals.Intervals, those: intervals.Intervals):
    """Return the first of ``those`` that may overlap each of ``these``, and how many do."""
    first = np.searchsorted(those[:, 1], these[:, 0], side="right")
    return first, np.searchsorted(those[:, 0], these[:, 1], side="left") - first


def _uniform(seed: int, kind: int, number: int) -> float:
    """Draw from (0, 1) by a counter, the same on every machine and with every NumPy."""
    word = hashlib.sha256(f"{seed},{kind},{number}".encode()).digest()
    return ((int.from_bytes(word[:8], "big") >> 12) + 0.5) / 2**52


def _check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ForecastError(f"seed must be a whole number of at least 0, got {seed!r}")
