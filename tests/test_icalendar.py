"""iCalendar files as RFC 5545 has them."""

import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import traces

from orbittrace_data.icalendar import CalendarError, fold, to_icalendar
from orbittrace_data.trace import Trace

START = datetime(2026, 8, 16, tzinfo=UTC)


def content_lines(text: str) -> list[str]:
    """Check the physical lines, and unfold them (section 3.1)."""
    assert text.endswith("\r\n")
    physical = text.removesuffix("\r\n").split("\r\n")
    for line in physical:
        assert 0 < len(line.encode()) <= 75
        assert not re.search(r"[\r\n\x00-\x08\x0b-\x1f\x7f]", line)
    return text.replace("\r\n ", "").removesuffix("\r\n").split("\r\n")


def events(text: str) -> list[dict[str, str]]:
    """Read the events, each property once and each line of the form NAME:value."""
    lines = content_lines(text)
    assert lines[0] == "BEGIN:VCALENDAR"
    assert lines[1] == "VERSION:2.0"
    assert lines[2].startswith("PRODID:")
    assert lines[-1] == "END:VCALENDAR"
    found: list[dict[str, str]] = []
    current: dict[str, str] | None = None
    for line in lines[4:-1]:
        name, value = re.fullmatch(r"([A-Z-]+):(.*)", line).groups()
        if line == "BEGIN:VEVENT":
            current = {}
        elif line == "END:VEVENT":
            assert {"UID", "DTSTAMP", "DTSTART", "DTEND", "SUMMARY"} <= set(current)
            found.append(current)
            current = None
        else:
            assert name not in current
            current[name] = value
    assert current is None
    return found


def instant(value: str) -> datetime:
    assert re.fullmatch(r"\d{8}T\d{6}Z", value)
    return datetime.strptime(value, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def test_every_window_and_gap_is_an_event():
    trace = Trace("leo-1", 100_000, [[20_500, 40_500], [60_000, 70_000]], start=START, name="ONE")
    found = events(to_icalendar([trace]))
    seconds = [
        ((instant(e["DTSTART"]) - START).seconds, (instant(e["DTEND"]) - START).seconds) for e in found
    ]
    assert seconds == [(0, 20), (20, 41), (41, 60), (60, 70), (70, 100)]
    assert [e["CATEGORIES"] for e in found] == ["WINDOW", "GAP", "WINDOW", "GAP", "WINDOW"]
    assert found[1]["SUMMARY"] == "ONE: in shadow"
    assert found[1]["DESCRIPTION"] == (
        "gap of trace leo-1: 2026-08-16T00:00:20.500Z to 2026-08-16T00:00:40.500Z"
    )
    assert found[0]["DTSTAMP"] == "20260816T000000Z"


@settings(deadline=None, max_examples=60)
@given(traces(), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=120))
def test_any_trace_and_any_name_make_a_valid_file(trace, name):
    made = Trace(trace.trace_id, trace.span_ms * 733, trace.gaps * 733, start=START, name=name)
    text = to_icalendar([made, made.crop(0, made.span_ms)])
    assert text == to_icalendar([made, made])
    found = events(text)
    escaped = name.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    assert all(e["SUMMARY"].startswith(escaped) for e in found)
    half = found[: len(found) // 2]
    assert len({e["UID"] for e in half}) == len(half)
    assert all(instant(e["DTSTART"]) < instant(e["DTEND"]) for e in found)
    for earlier, later in itertools.pairwise(half):
        assert instant(earlier["DTEND"]) <= instant(later["DTSTART"]) + timedelta(seconds=1)


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_folding_divides_no_character_and_loses_none(line):
    parts = list(fold(line))
    assert parts[0] + "".join(part[1:] for part in parts[1:]) == line
    assert all(part.startswith(" ") for part in parts[1:])
    assert all(len(part.encode()) <= 75 for part in parts)


def test_two_objects_without_a_number_do_not_share_identifiers():
    made = [Trace("leo-0", 10_000, [[0, 5_000]], start=START, name=name) for name in ("ONE", "TWO")]
    assert len({e["UID"] for e in events(to_icalendar(made))}) == 4


def test_a_trace_without_a_date_has_no_place_in_a_calendar():
    with pytest.raises(CalendarError, match="trace demo is tied to no date: give it a start"):
        to_icalendar([Trace("demo", 100, [])])
