"""Public preemption logs of spot instances, and one's own up/down events, as traces."""

import csv
import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np

from .errors import InputError
from .trace import Trace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError, and so is a NUL in a name
        raise SpotLogError(f"{path} cannot be read as UTF-8 text: {error}") from None
    trace_id = trace_id or path.stem
    if path.suffix.lower() == ".json":
        return _from_probes(text, path, trace_id)
    if path.suffix.lower() == ".csv":
        return _from_events(text, path, trace_id)
    raise SpotLogError(f"{path} must end in .json (SkyPilot's spot traces) or .csv (time and event)")


def is_event_log(path: Path) -> bool:
    """Say whether a CSV file's header is that of up/down events."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return "event" in file.readline().strip().split(",")


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
        if value not in (0, 1):
            raise SpotLogError(f"{path}: data[{i}] is {value!r}; allowed are 0 (available) and 1 (preempted)")
    preempted = np.flatnonzero(np.array(data)) * int(gap_ms)
    return Trace(trace_id, len(data) * int(gap_ms), np.stack([preempted, preempted + int(gap_ms)], axis=1))


def _from_events(text: str, path: Path, trace_id: str) -> Trace:
    reader = csv.DictReader(text.splitlines())
    header = reader.fieldnames or []
    column = next((name for name in ("time", "time_s", "time_ms") if name in header), None)
    if column is None or "event" not in header:
        raise SpotLogError(
            f"{path} needs a header with event and one of time, time_s and time_ms; it has {list(header)}"
        )
    at_ms, events, start = [], [], None
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        event = (row["event"] or "").strip().lower()
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
    text = (text or "").strip()
    try:
        if column == "time_ms":
            return int(text), None
        if column == "time_s":
            return round(Fraction(text) * 1000), None
        since = datetime.fromisoformat(text) - _EPOCH
    except (ValueError, TypeError, ZeroDivisionError):
        kind = {"time_ms": "a whole number of milliseconds", "time_s": "a number of seconds"}.get(column)
        raise SpotLogError(
            f"{where}: {column} is {text!r}, not {kind or 'an ISO 8601 time with a zone'}"
        ) from None
    ms = round(Fraction(since // timedelta(microseconds=1), 1000))
    return ms, _EPOCH + timedelta(milliseconds=ms)
