"""Availability without an orbit: schedules that people set, as traces."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from . import intervals
from .errors import InputError
from .intervals import Intervals
from .plan import Seconds, nanoseconds
from .trace import DAY_MS, Trace

HOUR_MS = 3_600_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ScheduleError(InputError):
    """What was given is no schedule."""


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


def duty_cycle_trace(on_s: Seconds, off_s: Seconds, *, phase_s: Seconds = 0, cycles: int = 1) -> Trace:
    """Make the trace of a duty-cycled machine: on for ``on_s``, off for ``off_s``, from a point in the cycle.

    Parameters
    ----------
    on_s, off_s : int, float, Fraction or Decimal
        Available and unavailable time of one cycle [s]; whole milliseconds, at least one.
    phase_s : int, float, Fraction or Decimal
        How far into its cycle the machine is at t = 0 [s], in [0, on_s + off_s); whole milliseconds.
    cycles : int
        Cycles in the trace, the length of which is whole cycles at any phase.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        If a duration is not a positive number of whole milliseconds, or the phase not within a cycle.

    Examples
    --------
    >>> duty_cycle_trace(on_s=60, off_s=35, phase_s=70).gaps.tolist()
    [[0, 25000], [85000, 95000]]
    """
    on_ms, off_ms = _milliseconds(on_s, "on_s"), _milliseconds(off_s, "off_s")
    period_ms = on_ms + off_ms
    phase_ms = _milliseconds(phase_s, "phase_s") if phase_s else 0
    if phase_ms >= period_ms:
        raise ScheduleError(f"phase_s must lie in [0, {period_ms / 1000:g}) s, one cycle, got {phase_s!r} s")
    name = f"duty-{on_ms / 1000:g}s-{off_ms / 1000:g}s" + (f"-at-{phase_ms / 1000:g}s" if phase_ms else "")
    cycle = Trace.from_intervals([(on_ms, period_ms)], trace_id=name)
    return cycle.repeat(2).crop(phase_ms, phase_ms + period_ms).repeat(cycles)


def power_cap_trace(
    capped: Sequence[tuple[str | time, str | time]], zone: str, start: date | str, days: int
) -> Trace:
    """Make the trace of a machine that is off while its local clock reads certain times of day.

    An instant is unavailable if and only if the clock on the wall reads a time within one of the capped
    intervals. On the day that the clock skips an hour what falls into it is lost; on the day that it repeats
    one, what falls into it happens twice.

    Parameters
    ----------
    capped : sequence of (str or time, str or time)
        Local times of day [from, to), ``"HH:MM"`` or ``"HH:MM:SS"``; ``"24:00"`` is the end of the day,
        and an interval that ends before it begins runs over midnight.
    zone : str
        IANA name, for example ``Europe/Berlin``.
    start : date or str
        First local day, ``"2026-03-25"``; the trace starts at its midnight.
    days : int
        Local days; the one on which the clock changes has 23 or 25 hours.

    Returns
    -------
    Trace

    Raises
    ------
    ScheduleError

    Examples
    --------
    >>> cap = power_cap_trace([("17:00", "21:00")], "Europe/Berlin", "2026-03-28", days=2)
    >>> cap.span_ms // 3_600_000, (cap.gaps // 3_600_000).tolist()
    (47, [[17, 21], [40, 44]])
    """
    try:
        clock = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise ScheduleError(f"zone must be an IANA name such as Europe/Berlin, got {zone!r}") from None
    try:
        first = date.fromisoformat(start) if isinstance(start, str) else start
        first = datetime(first.year, first.month, first.day)
    except (ValueError, TypeError, AttributeError):
        raise ScheduleError(f"start must be a date such as 2026-03-25, got {start!r}") from None
    if isinstance(days, bool) or not isinstance(days, int | np.integer) or days < 1:
        raise ScheduleError(f"days must be a whole number of at least 1, got {days!r}")
    try:
        after = first + timedelta(days=int(days))
    except OverflowError:
        raise ScheduleError(f"{days} days from {start} end after the year 9999: give fewer") from None
    if first.year < 1900 or after.year > 9998:  # within a day of the calendar's ends UTC has no date
        raise ScheduleError(f"the days must lie in the years 1900 to 9998, got {days} from {start}")
    off = _daily(capped)
    begin_ms, end_ms = (_utc_ms(day.replace(tzinfo=clock)) for day in (first, after))

    # Between two changes of the clock, local time is UTC plus a constant.
    gaps = [np.empty((0, 2), np.int64)]
    for regime_start, regime_stop, offset_ms in _regimes(clock, begin_ms, end_ms):
        day_0, day_1 = (regime_start + offset_ms) // DAY_MS, (regime_stop + offset_ms) // DAY_MS
        days_ms = np.arange(day_0, day_1 + 1)[:, None, None] * DAY_MS
        local = intervals.union((off + days_ms).reshape(-1, 2))
        gaps.append(intervals.clip(local - offset_ms, regime_start, regime_stop) - begin_ms)
    name = "-".join([zone.replace("/", "-").lower(), *(f"{_clock(a)}-{_clock(b)}" for a, b in off.tolist())])
    return Trace(
        f"cap-{name}",
        end_ms - begin_ms,
        np.concatenate(gaps),
        start=_EPOCH + timedelta(milliseconds=begin_ms),
        name=f"power cap in {zone}",
    )


def _daily(capped: Sequence[tuple[str | time, str | time]]) -> Intervals:
    """Return the capped intervals of one day [ms from local midnight]; over midnight becomes two."""
    off = []
    for pair in capped:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ScheduleError(f'capped holds pairs of times such as ("17:00", "21:00"), got {pair!r}')
        a, b = (_time_of_day_ms(value) for value in pair)
        if a == b:
            raise ScheduleError(f"a capped interval needs two different times, got {pair!r}")
        off += [(a, b)] if a < b else [(a, DAY_MS), (0, b)]
    return intervals.union(np.array(off, np.int64).reshape(-1, 2))


def _time_of_day_ms(value: str | time) -> int:
    if isinstance(value, str):
        if value in ("24:00", "24:00:00"):
            return DAY_MS
        if not re.fullmatch(r"\d\d:\d\d(:\d\d)?", value):
            raise ScheduleError(f'a time of day is "HH:MM" or "HH:MM:SS", got {value!r}')
        try:
            value = time.fromisoformat(value)
        except ValueError as error:
            raise ScheduleError(f"{value!r} is no time of day: {error}") from None
    if not isinstance(value, time) or value.tzinfo or value.microsecond % 1000:
        raise ScheduleError(f"a time of day has no zone and whole milliseconds, got {value!r}")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def _regimes(clock: ZoneInfo, begin_ms: int, end_ms: int) -> list[tuple[int, int, int]]:
    """Return (start, stop, offset from UTC) [ms] of the stretches with one offset, in order."""

    def offset_ms(utc_ms: int) -> int:
        instant = (_EPOCH + timedelta(milliseconds=utc_ms)).astimezone(clock)
        return round((instant.utcoffset() or timedelta()) / timedelta(milliseconds=1))

    regimes, start, offset = [], begin_ms, offset_ms(begin_ms)
    for hour_ms in [*range(begin_ms + HOUR_MS, end_ms, HOUR_MS), end_ms]:
        if offset_ms(hour_ms) == offset:
            continue
        low, high = hour_ms - HOUR_MS, hour_ms  # the change lies in (low, high]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset_ms(middle) != offset else (middle, high)
        regimes.append((start, high, offset))
        start, offset = high, offset_ms(high)
    return [*regimes, (start, end_ms, offset)]


def _utc_ms(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def _clock(ms: int) -> str:
    return f"{ms // HOUR_MS:02}{ms // 60_000 % 60:02}"


def _milliseconds(value: Seconds, name: str) -> int:
    milliseconds, rest = divmod(nanoseconds(value, name), 1_000_000)
    if rest or not milliseconds:
        raise ScheduleError(f"{name} must be whole milliseconds and at least one, got {value} s")
    return milliseconds
