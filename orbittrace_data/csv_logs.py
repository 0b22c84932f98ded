"""Traces from one's own telemetry or scheduler log in CSV."""

import csv
import io
import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .errors import InputError
from .intervals import intersection, union
from .trace import MAX_SPAN_MS, Trace, TraceError, as_instant, unix_ms

_WHOLE_NUMBER = re.compile(r"\+?[0-9]{1,18}")
_FINER = re.compile(r"[.,][0-9]{3}0*[1-9]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class _Row:
    """One interval [ms], from the trace's start or, in a file with dates, from 1970."""

    line: int
    start_ms: int
    stop_ms: int
    available: bool


def read_csv_log(
    path: str | Path,
    *,
    trace_id: str | None = None,
    span_ms: int | None = None,
    start: datetime | None = None,
    stop: datetime | None = None,
    name: str = "",
) -> Trace:
    r"""Read a log of intervals.

    The file has a header with ``start`` and ``stop`` (ISO 8601 with a zone) or ``start_ms`` and
    ``stop_ms`` (whole milliseconds from the trace's start), and optionally ``available`` (true/false, 1/0).
    Without that column every row is a gap; with it, rows that are not available are gaps. A file with all
    four times, such as ``orbittrace windows --csv`` prints, must have both kinds agree.

    Parameters
    ----------
    path : str or Path
    trace_id : str, optional
        By default the file's stem.
    span_ms, start, stop, name
        As for `Trace.from_intervals`.

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
    rows, zero_ms = _read_rows(path)
    path = Path(path)
    dated = zero_ms is not None
    if dated and start is None:
        start = _EPOCH + timedelta(milliseconds=zero_ms)
    if rows and span_ms is None and stop is None:
        last_ms = max(row.stop_ms for row in rows)
        if dated:
            stop = _EPOCH + timedelta(milliseconds=last_ms)
        else:
            span_ms = last_ms
    whole = Trace.from_intervals(
        [], span_ms=span_ms, start=start, stop=stop, trace_id=trace_id or path.stem, name=name
    )
    first_ms = unix_ms(whole.start) if dated and whole.start else 0
    for row in rows:
        if not first_ms <= row.start_ms <= row.stop_ms <= first_ms + whole.span_ms:
            raise TraceError(
                f"{path}, line {row.line}: reaches from {row.start_ms - first_ms} to {row.stop_ms - first_ms} ms, outside "
                f"the span [0, {whole.span_ms}]: cut it or make the span longer"
            )
    windows, gaps = (
        union([(r.start_ms - first_ms, r.stop_ms - first_ms) for r in rows if r.available is available])
        for available in (True, False)
    )
    clash = intersection(windows, gaps)
    if len(clash):
        a_ms, b_ms = clash[0].tolist()
        lines = [str(r.line) for r in rows if r.start_ms - first_ms < b_ms and a_ms < r.stop_ms - first_ms]
        raise TraceError(
            f"{path}, lines {' and '.join(lines[:4])}: both available and not available from {a_ms} to {b_ms} ms: "
            "correct it"
        )
    return replace(whole, gaps=gaps)


def read_table(
    path: str | Path, error: type[InputError]
) -> tuple[list[str], list[tuple[int, dict[str, str | None]]]]:
    """Read a CSV file with a header.

    Parameters
    ----------
    path : str or Path
    error : type of InputError
        What to raise.

    Returns
    -------
    header : list of str
    rows : list of (int, dict)
        The line on which each ends, and its fields; None where it has fewer than the header.
    """
    reader = csv.DictReader(io.StringIO(read_log_text(path, error)), strict=True)
    try:
        header = list(reader.fieldnames or [])
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as bad:
        raise error(f"{path}, line {reader.line_num}: this is no CSV: {bad}") from None
    if len(set(header)) < len(header):
        raise error(f"{path} names a column more than once: {header}")
    for line, row in rows:
        if None in row:
            raise error(f"{path}, line {line}: has more fields than the header's {len(header)}")
    return header, rows


def read_log_text(path: str | Path, error: type[InputError]) -> str:
    """Read a file's text, with every line end as a newline; raise ``error`` where there is none to read."""
    if not isinstance(path, str | os.PathLike):
        raise error(f"a log is read from a file's path, got {path!r}")
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as bad:  # UnicodeDecodeError is a ValueError, and so is a NUL in a name
        raise error(f"{path} cannot be read as UTF-8 text: {bad}") from None


def _read_rows(path: str | Path) -> tuple[list[_Row], int | None]:
    """Read the rows, and the instant that their trace starts with by default [Unix ms]; None without dates."""
    header, table = read_table(path, TraceError)
    counted, dated = ({a, b} <= set(header) for a, b in (("start_ms", "stop_ms"), ("start", "stop")))
    if not counted and not dated:
        raise TraceError(
            f"{path} needs a header with start_ms and stop_ms, or start and stop; it has {header}"
        )
    rows, zeros = [], []
    for line, fields in table:
        where = f"{path}, line {line}"
        start_ms, stop_ms = (
            _instant_ms(fields[name], f"{where}: {name}") if dated else _whole_ms(fields[f"{name}_ms"], f"{where}: {name}_ms")
            for name in ("start", "stop")
        )  # fmt: skip
        if stop_ms < start_ms:
            raise TraceError(f"{where}: stops {start_ms - stop_ms} ms before it starts")
        if dated and counted:
            zeros += [
                start_ms - _whole_ms(fields["start_ms"], f"{where}: start_ms"),
                stop_ms - _whole_ms(fields["stop_ms"], f"{where}: stop_ms"),
            ]
            if set(zeros[-2:]) != {zeros[0]}:
                raise TraceError(
                    f"{where}: start and stop say other times than start_ms and stop_ms, by line {table[0][0]}: "
                    "correct them, or leave two of the columns out"
                )
        available = _available(fields["available"], where) if "available" in header else False
        rows.append(_Row(line, start_ms, stop_ms, available))
    if not dated or not rows:
        return rows, None
    return rows, zeros[0] if zeros else min(row.start_ms for row in rows)


def _whole_ms(text: str | None, what: str) -> int:
    stripped = (text or "").strip(" \t")
    if not _WHOLE_NUMBER.fullmatch(stripped) or int(stripped) > MAX_SPAN_MS:
        raise TraceError(f"{what} is {text!r}, not a whole number of milliseconds from 0 to {MAX_SPAN_MS}")
    return int(stripped)


def _instant_ms(text: str | None, what: str) -> int:
    """Read an ISO 8601 time with a zone [Unix ms]."""
    stripped = (text or "").strip(" \t")
    try:
        instant = datetime.fromisoformat(stripped)
    except ValueError:
        raise TraceError(f"{what} is {text!r}, not an ISO 8601 time") from None
    if instant.tzinfo is None:
        raise TraceError(f"{what} {text!r} has no time zone: write it with Z or +00:00")
    if _FINER.search(stripped):  # fromisoformat drops digits beyond the sixth
        raise TraceError(f"{what} {text!r} is finer than a millisecond: round it")
    return unix_ms(as_instant(instant, what))


def _available(text: str | None, where: str) -> bool:
    value = {"true": True, "1": True, "false": False, "0": False}.get((text or "").strip(" \t").lower())
    if value is None:
        raise TraceError(f"{where}: available is {text!r}; allowed are true, false, 1 and 0")
    return value
