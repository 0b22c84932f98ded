"""Availability without an orbit: schedules that people set, as traces."""

from .errors import InputError
from .plan import Seconds, nanoseconds
from .trace import Trace


def periodic_pause_trace(every_s: Seconds, pause_s: Seconds, *, pauses: int = 1) -> Trace:
    """Make a trace that is available for ``every_s``, then pauses for ``pause_s``, again and again.

    This is the regime of frequent, short pauses. One period suffices for a plan, which repeats it.

    Parameters
    ----------
    every_s, pause_s : int, float, Fraction or Decimal
        Available and unavailable time of one period [s]; whole milliseconds, at least one.
    pauses : int
        Periods in the trace.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        If a duration is not a positive number of whole milliseconds.

    Examples
    --------
    >>> periodic_pause_trace(every_s=10, pause_s=2, pauses=2).gaps.tolist()
    [[10000, 12000], [22000, 24000]]
    """
    every_ms, pause_ms = _milliseconds(every_s, "every_s"), _milliseconds(pause_s, "pause_s")
    name = f"pause-{every_ms / 1000:g}s-{pause_ms / 1000:g}s"
    period_ms = every_ms + pause_ms
    return Trace.from_intervals([(every_ms, period_ms)], trace_id=name).repeat(pauses)


def _milliseconds(value: Seconds, name: str) -> int:
    milliseconds, rest = divmod(nanoseconds(value, name), 1_000_000)
    if rest or not milliseconds:
        raise InputError(f"{name} must be whole milliseconds and at least one, got {value!r} s")
    return milliseconds
