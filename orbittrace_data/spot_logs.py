"""Public preemption logs of spot instances, and one's own up/down events, as traces."""

import json
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np

from .csv_logs import read_log_text, read_table
from .errors import InputError
from .trace import Trace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = {
    "time_ms": re.compile(r"[+-]?[0-9]{1,15}"),
    "time_s": re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]{0,18})?"),
}


class SpotLogError(InputError):
    """A log that does not hold what its format asks for."""


def read_spot_log(path: str | Path, *, trace_id: str | None = None) -> Trace:
    """Read a preemption log.

    Two formats, told apart by the file's ending:

    - ``.json``, the spot traces of SkyPilot (Wu et al., Can't Be Late: Optimizing Spot Instance Savings under
      Deadlines, NSDI 2024): ``metadata.gap_seconds`` is the time between two probes and ``data`` one number a
      probe, 0 where an instance could be had and 1 where it was preempted. A probe stands for the time up to
      the next one.
    - ``.csv``, events: a column ``event`` (``up``, ``down`` or, last, ``end``) and a column ``time`` (ISO
      8601 with a zone), ``time_s`` or ``time_ms`` (from any origin), rounded to milliseconds. The trace
      starts with the first event and stops with the last one. Saying again what holds already is allowed,
      going back in time is not.

    Parameters
    ----------
    path : str or Path
    trace_id : str, optional
        By default the file's stem.

    Returns
    -------
    Trace

    Raises
    ------
    SpotLogError
        Naming the file, and the line or the probe.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> log = pathlib.Path(tempfile.mkdtemp(), "us-west-2a.json")
    >>> _ = log.write_text('{"metadata": {"gap_seconds": 600}, "data": [0, 0, 1, 0]}')
    >>> read_spot_log(log).gaps.tolist()
    [[1200000, 1800000]]
    """
    text = read_log_text(path, SpotLogError)
    path = Path(path)
    trace_id = trace_id or path.stem
    if path.suffix.lower() == ".json":
        return _from_probes(text, path, trace_id)
    if path.suffix.lower() == ".csv":
        return _from_events(path, trace_id)
    raise SpotLogError(f"{path} must end in .json (SkyPilot's spot traces) or .csv (time and event)")


def is_event_log(path: Path) -> bool:
    """Say whether a CSV file's header is that of up/down events."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return "event" in file.readline().replace('"', "").strip().split(",")


def _from_probes(text: str, path: Path, trace_id: str) -> Trace:
    try:
        log = json.loads(text)
        gap_s, data = log["metadata"]["gap_seconds"], log["data"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise SpotLogError(f"{path} needs metadata.gap_seconds and data, as SkyPilot's spot traces") from None
    number = isinstance(gap_s, int | float) and not isinstance(gap_s, bool)
    gap_ms = Fraction(str(gap_s)) * 1000 if number and 0 < gap_s < 1e9 else Fraction(0)
    if gap_ms < 1 or gap_ms.denominator != 1:
        raise SpotLogError(f"{path}: metadata.gap_seconds must be positive whole milliseconds, got {gap_s!r}")
    if not isinstance(data, list) or not data:
        raise SpotLogError(f"{path}: data must be a list of one number a probe, got {type(data).__name__}")
    for i, value in enumerate(data):
        if isinstance(value, bool) or value not in (0, 1):  # true could mean either
            raise SpotLogError(f"{path}: data[{i}] is {value!r}; allowed are 0 (available) and 1 (preempted)")
    preempted = np.flatnonzero(np.array(data)) * int(gap_ms)
    return Trace(trace_id, len(data) * int(gap_ms), np.stack([preempted, preempted + int(gap_ms)], axis=1))


def _from_events(path: Path, trace_id: str) -> Trace:
    header, rows = read_table(path, SpotLogError)
    columns = [name for name in ("time", "time_s", "time_ms") if name in header]
    if len(columns) != 1 or "event" not in header:
        raise SpotLogError(
            f"{path} needs a header with event and one of time, time_s and time_ms; it has {header}"
        )
    (column,) = columns
    at_ms, events, start = [], [], None
    for line, row in rows:
        where = f"{path}, line {line}"
        event = (row["event"] or "").strip(" \t").lower()
        if event not in ("up", "down", "end"):
            raise SpotLogError(f"{where}: event is {row['event']!r}; allowed are up, down and end")
        if events and events[-1] == "end":
            raise SpotLogError(f"{where}: an event follows the end: sort the file by time")
        ms, instant = _event_ms(row[column], column, where)
        if at_ms and ms < at_ms[-1]:
            raise SpotLogError(f"{where}: goes back in time: sort the file by time")
        start = start or instant
        at_ms.append(ms)
        events.append(event)
    if len(at_ms) < 2 or at_ms[-1] == at_ms[0]:
        raise SpotLogError(
            f"{path} needs two events at different times, a start and an end; it has {len(at_ms)}"
        )
    edges = np.array(at_ms, np.int64) - at_ms[0]
    down = np.array([event == "down" for event in events[:-1]])
    return Trace(trace_id, int(edges[-1]), np.stack([edges[:-1], edges[1:]], axis=1)[down], start=start)


def _event_ms(text: str | None, column: str, where: str) -> tuple[int, datetime | None]:
    """Read one event's time: milliseconds from the column's origin, and the instant if it is one."""
    text = (text or "").strip(" \t")
    try:
        if column != "time":
            if not _NUMBER[column].fullmatch(text):
                raise ValueError
            return round(Fraction(text) * (1000 if column == "time_s" else 1)), None
        since = datetime.fromisoformat(text) - _EPOCH
        ms = round(Fraction(since // timedelta(microseconds=1), 1000))
        return ms, _EPOCH + timedelta(milliseconds=ms)
    except (ValueError, TypeError, OverflowError):
        kind = {"time_ms": "a whole number of milliseconds", "time_s": "a number of seconds"}.get(column)
        raise SpotLogError(
            f"{where}: {column} is {text!r}, not {kind or 'an ISO 8601 time with a zone'}"
        ) from None
