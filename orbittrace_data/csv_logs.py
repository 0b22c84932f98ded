"""Traces from one's own telemetry or scheduler log in CSV."""

import csv
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from .intervals import intersection
from .trace import Trace, TraceError

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def read_csv_log(path: str | Path, *, trace_id: str | None = None, **options: Any) -> Trace:
    r"""Read a log of intervals.

    The file has a header with ``start`` and ``stop`` (ISO 8601 with a zone) or ``start_ms`` and
    ``stop_ms`` (whole milliseconds), and optionally ``available`` (true/false, 1/0). Without that
    column every row is a gap; with it, rows that are not available are gaps.

    Parameters
    ----------
    path : str or Path
    trace_id : str, optional
        By default the file's stem.
    **options
        ``span_ms``, ``start``, ``stop``, ``name`` of `Trace.from_intervals`.

    Returns
    -------
    Trace

    Raises
    ------
    TraceError
        Naming the file's line.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("node-7.csv").write_text("start_ms,stop_ms\n30,40\n90,100\n")
    >>> read_csv_log("node-7.csv").duty_cycle
    0.8
    """
    path = Path(path)
    trace_id = trace_id or path.stem
    rows = _read_rows(path)
    gaps = [(start, stop) for start, stop, available in rows if not available]
    windows = [(start, stop) for start, stop, available in rows if available]
    if any(isinstance(start, datetime) for start, _, _ in rows):
        options.setdefault("start", min(start for start, _, _ in rows))
        options.setdefault("stop", None if "span_ms" in options else max(stop for _, stop, _ in rows))
    elif "span_ms" not in options and "stop" not in options and rows:
        options["span_ms"] = max(stop for _, stop, _ in rows)
    trace = Trace.from_intervals(gaps, trace_id=trace_id, **options)
    if windows:
        both = {**options, "start": trace.start, "stop": None, "span_ms": trace.span_ms}
        said = Trace.from_intervals(windows=windows, trace_id=trace_id, **both)
        clash = intersection(said.windows, trace.gaps)
        if len(clash):
            raise TraceError(
                f"{path} says both available and not available from {clash[0, 0]} to {clash[0, 1]} ms: correct it"
            )
    return trace


def _read_rows(path: Path) -> list[tuple[Any, Any, bool]]:
    """Read (start, stop, available) rows; datetimes or integers, one kind for the whole file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError, and so is a NUL in a name
        raise TraceError(f"{path} cannot be read as UTF-8 text: {error}") from None
    reader = csv.DictReader(text.splitlines(), strict=True)
    try:
        header = list(reader.fieldnames or [])
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise TraceError(f"{path}, line {reader.line_num}: this is no CSV: {error}") from None
    for names in (("start_ms", "stop_ms"), ("start", "stop")):
        if set(names) <= set(header):
            break
    else:
        raise TraceError(
            f"{path} needs a header with start_ms and stop_ms, or start and stop; it has {header}"
        )
    if len(set(header)) < len(header):
        raise TraceError(f"{path} names a column more than once: {header}")
    for line, row in rows:
        if None in row:
            raise TraceError(f"{path}, line {line}: has more fields than the header's {len(header)}")
    return [
        (
            _csv_time(row[names[0]], names[0], path, line),
            _csv_time(row[names[1]], names[1], path, line),
            _csv_bool(row["available"], path, line) if "available" in header else False,
        )
        for line, row in rows
    ]


def _csv_time(text: str | None, column: str, path: Path, line: int) -> Any:
    try:
        if column.endswith("_ms"):
            if not _WHOLE_NUMBER.fullmatch((text or "").strip()):
                raise ValueError
            return int(text or "")
        instant = datetime.fromisoformat((text or "").strip())
    except ValueError:
        kind = "a whole number of milliseconds" if column.endswith("_ms") else "an ISO 8601 time"
        raise TraceError(f"{path}, line {line}: {column} is {text!r}, not {kind}") from None
    if instant.tzinfo is None:
        raise TraceError(
            f"{path}, line {line}: {column} {text!r} has no time zone: write it with Z or +00:00"
        )
    return instant


def _csv_bool(text: str | None, path: Path, line: int) -> bool:
    value = {"true": True, "1": True, "false": False, "0": False}.get((text or "").strip().lower())
    if value is None:
        raise TraceError(f"{path}, line {line}: available is {text!r}; allowed are true, false, 1 and 0")
    return value
