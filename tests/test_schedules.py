from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.errors import InputError
from orbittrace_data.schedules import (
    ScheduleError,
    duty_cycle_trace,
    periodic_pause_trace,
    power_cap_trace,
)

HOUR = 3_600_000
FEW = settings(max_examples=40, deadline=None)


@given(st.integers(1, 500), st.integers(1, 500), st.data())
@FEW
def test_duty_cycle_is_periodic_from_its_phase(on, off, data):
    phase = data.draw(st.integers(0, on + off - 1))
    trace = duty_cycle_trace(on / 1000, off / 1000, phase_s=phase / 1000, cycles=3)
    t = np.arange(trace.span_ms)
    assert trace.span_ms == 3 * (on + off)
    assert np.array_equal(trace.is_available(t), (t + phase) % (on + off) < on)


def test_duty_cycle_and_pause_are_one_schedule_under_two_names():
    assert np.array_equal(duty_cycle_trace(10, 2, cycles=4).gaps, periodic_pause_trace(10, 2, pauses=4).gaps)
    assert duty_cycle_trace(3600, 2100).trace_id == "duty-3600s-2100s"


@pytest.mark.parametrize("bad", [{"on_s": 0}, {"off_s": 0.0001}, {"phase_s": 3}, {"on_s": True}])
def test_duty_cycle_refuses_what_is_no_cycle(bad):
    with pytest.raises(InputError):
        duty_cycle_trace(**{"on_s": 1, "off_s": 2, **bad})


def reads(trace, zone, minutes, capped):
    """Ask the wall clock at every step of the trace: the definition, one instant at a time."""
    for t in range(0, trace.span_ms, minutes * 60_000):
        local = (trace.start + timedelta(milliseconds=t)).astimezone(ZoneInfo(zone)).time()
        off = any(a <= local < b if a < b else local >= a or local < b for a, b in capped)
        assert trace.is_available(t) is not off, (t, local)


@pytest.mark.parametrize(
    ("zone", "start", "hours"),
    [
        ("Europe/Berlin", "2026-03-28", 71),  # skips 02:00 to 03:00 on the 29th
        ("Europe/Berlin", "2026-10-24", 73),  # repeats 02:00 to 03:00 on the 25th
        ("America/New_York", "2026-03-07", 71),
        ("America/New_York", "2026-10-31", 73),
        ("Australia/Lord_Howe", "2026-04-04", 72.5),  # a change of half an hour
        ("America/Santiago", "2026-09-05", 71),  # skips midnight itself
        ("Asia/Kolkata", "2026-06-01", 72),
        ("UTC", "2026-06-01", 72),
    ],
)
@pytest.mark.parametrize(
    "capped",
    [
        [(time(2, 30), time(4, 0))],  # begins in the hour that is skipped or repeated
        [(time(1, 0), time(2, 30))],  # ends in it
        [(time(23, 15), time(0, 45)), (time(12, 0), time(13, 0))],  # over midnight
    ],
)
def test_power_cap_follows_the_clock_on_the_wall(zone, start, hours, capped):
    trace = power_cap_trace(capped, zone, start, days=3)
    assert trace.span_ms == hours * HOUR
    reads(trace, zone, 5, capped)


def test_power_cap_on_the_two_days_by_hand():
    """02:30 to 04:00 lasts an hour when 02:00 to 03:00 is skipped; repeated, half an hour comes first."""
    capped = [("02:30", "04:00")]
    spring = power_cap_trace(capped, "Europe/Berlin", date(2026, 3, 29), 1)
    assert (spring.gaps / HOUR).tolist() == [[2, 3]]
    autumn = power_cap_trace(capped, "Europe/Berlin", date(2026, 10, 25), 1)
    assert (autumn.gaps / HOUR).tolist() == [[2.5, 3], [3.5, 5]]
    assert autumn.start == datetime(2026, 10, 24, 22, tzinfo=UTC)


def test_power_cap_takes_text_or_times_and_the_end_of_the_day():
    by_text = power_cap_trace([("21:30", "24:00")], "UTC", "2026-01-01", 2)
    assert by_text == power_cap_trace([(time(21, 30), "24:00:00")], "UTC", date(2026, 1, 1), 2)
    assert by_text.gaps.tolist() == [[int(21.5 * HOUR), 24 * HOUR], [int(45.5 * HOUR), 48 * HOUR]]
    assert by_text.trace_id == "cap-utc-2130-2400"
    whole = power_cap_trace([("00:00", "24:00")], "UTC", "2026-01-01", 2)
    assert whole.duty_cycle == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([("17:00", "21:00")], "Mars/Olympus", "2026-01-01", 1), "IANA name"),
        (([("17:00", "21:00")], "../etc/passwd", "2026-01-01", 1), "IANA name"),
        (([("17:00", "21:00")], "UTC", "1 May", 1), "date such as"),
        (([("17:00", "21:00")], "UTC", "2026-01-01", 0), "at least 1"),
        (([("17:00", "21:00")], "UTC", "2026-01-01", 1.5), "whole number of at least 1, got 1.5"),
        (([("17:00", "21:00")], "UTC", "9999-12-31", 5), "after the year 9999"),
        (([("17:00", "17:00")], "UTC", "2026-01-01", 1), "two different times"),
        (([("5pm", "21:00")], "UTC", "2026-01-01", 1), "HH:MM"),
        (([("17:60", "21:00")], "UTC", "2026-01-01", 1), "no time of day"),
        ((["17:00"], "UTC", "2026-01-01", 1), "pairs of times"),
    ],
)
def test_power_cap_refuses_what_is_no_cap(arguments, message):
    with pytest.raises(InputError, match=message):
        power_cap_trace(*arguments)


@pytest.mark.parametrize(
    ("capped", "zone", "start"),
    [
        ([5], "Europe/Berlin", "2026-03-25"),
        ([("17:00", "21:00")], None, "2026-03-25"),
        ([("17:00", "21:00")], "Europe/Berlin", "0001-01-01"),
        ([("17:00", "21:00")], "America/New_York", "9998-12-31"),
    ],
)
def test_a_cap_that_is_none_is_refused(capped, zone, start):
    with pytest.raises(ScheduleError):
        power_cap_trace(capped, zone, start, days=2)
