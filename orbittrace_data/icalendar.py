"""Windows and gaps as an iCalendar file (RFC 5545) for people's calendars."""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from ._version import __version__
from .errors import InputError
from .trace import Trace

_MAX_OCTETS = 75
_SUNLIGHT = ("sunlit", "in shadow")


class CalendarError(InputError):
    """A trace that has no date has no place in a calendar."""


def to_icalendar(traces: Iterable[Trace], words: tuple[str, str] = _SUNLIGHT) -> str:
    r"""Write an event for each window and each gap, in order; the same traces give the same text.

    A calendar counts whole seconds: a gap is widened to them and a window narrowed, and the exact times stand
    in the description. A window that holds no whole second is left out. ``DTSTAMP`` is the epoch of the
    elements that the trace was made of (its start where there are none).

    Parameters
    ----------
    traces : iterable of Trace
        Each with a start.
    words : (str, str)
        What a window and a gap are called in the summaries.

    Returns
    -------
    str
        Lines of at most 75 octets that end with CRLF.

    Raises
    ------
    CalendarError
        If a trace is tied to no date.

    Examples
    --------
    >>> start = datetime(2026, 8, 16, tzinfo=UTC)
    >>> text = to_icalendar([Trace("leo-1", 60_000, [[1_500, 20_000]], start=start, name="ONE")])
    >>> [line for line in text.split("\r\n") if line.startswith(("SUMMARY", "DTSTART"))]
    ['DTSTART:20260816T000000Z', 'SUMMARY:ONE: sunlit', 'DTSTART:20260816T000001Z',
     'SUMMARY:ONE: in shadow', 'DTSTART:20260816T000020Z', 'SUMMARY:ONE: sunlit']
    """
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        f"PRODID:-//OrbitTrace//orbittrace-data {__version__}//EN",
        "CALSCALE:GREGORIAN",
    ]
    for trace in traces:
        lines += _events(trace, dict(zip(("window", "gap"), words, strict=True)))
    lines.append("END:VCALENDAR")
    return "".join(folded + "\r\n" for line in lines for folded in fold(line))


def fold(line: str) -> Iterator[str]:
    """Split a content line into parts of at most 75 octets; each but the first begins with a blank.

    Parameters
    ----------
    line : str

    Yields
    ------
    str
        Without line ends; no character is divided (RFC 5545, section 3.1).

    Examples
    --------
    >>> [len(part) for part in fold("x" * 150)]
    [75, 75, 2]
    """
    part, octets = "", 0
    for character in line:
        size = len(character.encode())
        if octets + size > _MAX_OCTETS:
            yield part
            part, octets = " ", 1
        part += character
        octets += size
    yield part


def _events(trace: Trace, words: dict[str, str]) -> Iterator[str]:
    if trace.start is None:
        raise CalendarError(f"trace {trace.trace_id} is tied to no date: give it a start")
    stamp = trace.orbit.epoch if trace.orbit else trace.start
    # The identifier must differ between objects that share a number (0: none) in one calendar.
    facts = f"{trace.trace_id} {trace.name} {stamp.isoformat()}"
    identity = hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()[:16]
    spans = [(a, b, "gap") for a, b in trace.gaps.tolist()] + [
        (a, b, "window") for a, b in trace.windows.tolist()
    ]
    for start_ms, stop_ms, kind in sorted(spans):
        exact = [trace.start + timedelta(milliseconds=ms) for ms in (start_ms, stop_ms)]
        first, last = _whole_second(exact[0], up=kind == "window"), _whole_second(exact[1], up=kind == "gap")
        if first >= last:
            continue
        between = " to ".join(t.isoformat(timespec="milliseconds").replace("+00:00", "Z") for t in exact)
        yield "BEGIN:VEVENT"
        yield f"UID:{kind}-{_utc(exact[0])}-{exact[0].microsecond // 1000:03d}-{identity}@orbittrace"
        yield f"DTSTAMP:{_utc(stamp)}"
        yield f"DTSTART:{_utc(first)}"
        yield f"DTEND:{_utc(last)}"
        yield f"SUMMARY:{_text(trace.name or trace.trace_id)}: {words[kind]}"
        yield f"DESCRIPTION:{_text(f'{kind} of trace {trace.trace_id}: {between}')}"
        yield f"CATEGORIES:{kind.upper()}"
        yield "TRANSP:TRANSPARENT"
        yield "END:VEVENT"


def _whole_second(instant: datetime, up: bool) -> datetime:
    whole = instant.replace(microsecond=0)
    return whole + timedelta(seconds=1) if up and whole != instant else whole


def _utc(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(text: str) -> str:
    r"""Escape a TEXT value: backslash, semicolon, comma, and line ends as \n (section 3.3.11)."""
    escaped = text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    return escaped.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")
