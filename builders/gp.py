"""One reader for general-perturbations data in every format that CelesTrak and Space-Track give."""

import codecs
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .element_set import ElementSet, Problem, format_epoch
from .omm_formats import read_csv, read_json, read_kvn, read_xml
from .tle import line_kind, read_tle_lines

Buffer = bytes | bytearray | memoryview

MAX_BYTES = 512 * 2**20
_SHOWN_PROBLEMS = 5


class GpError(InputError):
    """What was given holds no element sets, or bad ones where none may be bad."""


@dataclass(frozen=True)
class Reading:
    """What a file of element sets held.

    Attributes
    ----------
    format : str
        ``"tle"``, ``"csv"``, ``"json"``, ``"xml"`` or ``"kvn"``, recognised from the content.
    element_sets : tuple of ElementSet
        One for each object, in the file's order; of duplicates the newest epoch.
    problems : tuple of Problem
        The records that were refused, each with its line, field and reason.
    notes : tuple of str
        What else a person should know: duplicates that were left out.
    """

    format: str
    element_sets: tuple[ElementSet, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def read_element_sets(
    source: str | os.PathLike[str] | Buffer, strict: bool = False, called: str | None = None
) -> Reading:
    r"""Read element sets in TLE, 2LE, 3LE or OMM (CSV, JSON, XML, KVN); the content tells the format.

    Parameters
    ----------
    source : path, "-", or bytes, bytearray or memoryview
        A file, standard input, or the content itself.
    strict : bool
        Refuse the whole file for one bad record. By default a bad record is a problem of the reading and
        its neighbours load.
    called : str, optional
        What to call the source in a sentence; by default its path, or "the data".

    Returns
    -------
    Reading

    Raises
    ------
    GpError
        If the source cannot be read, is empty, or holds something else (a web page, a server's words);
        with `strict` also for any bad record.

    Examples
    --------
    >>> reading = read_element_sets(
    ...     b"ISS (ZARYA)\n"
    ...     b"1 25544U 98067A   98324.28472222 -.00003657  11563-4  00000+0 0    10\n"
    ...     b"2 25544  51.5908 168.3788 0125362  86.4185 359.7454 16.05064833    05\n"
    ... )
    >>> [(e.catalog_number, e.name) for e in reading.element_sets]
    [(25544, 'ISS (ZARYA)')]
    """
    data, name = load(source)
    called = called or name
    kind, records, problems = parse_records(data, called)
    if not records and not problems:
        raise GpError(f"{called} is {kind.upper()} and holds no record: no element sets are in it")
    if strict and problems:
        shown = "; ".join(map(str, problems[:_SHOWN_PROBLEMS]))
        more = len(problems) - _SHOWN_PROBLEMS
        raise GpError(
            f"{called} has {len(problems)} bad record{'s' * (len(problems) > 1)}: {shown}"
            + (f"; and {more} more" if more > 0 else "")
        )
    element_sets, notes = newest_of_each(records)
    if kind in ("csv", "kvn") and not data.endswith((b"\n", b"\r")):
        notes += ("the last line has no line end: if the file was cut there, its last value is short",)
    return Reading(kind, element_sets, tuple(problems), notes)


def parse_records(
    data: bytes, called: str = "the data"
) -> tuple[str, list[tuple[int, ElementSet]], list[Problem]]:
    """Read every record, duplicates included.

    Parameters
    ----------
    data : bytes
    called : str
        What to call it in a sentence.

    Returns
    -------
    format : str
    records : list of (int, ElementSet)
        With the number of the line where each begins.
    problems : list of Problem

    Raises
    ------
    GpError
        If it is empty or holds something else.
    """
    text = _decode(data, called)
    kind = _recognise(text, called)
    if kind == "json":
        return kind, *read_json(text)
    if kind == "xml":
        return kind, *read_xml(text)
    read = {"tle": read_tle_lines, "csv": read_csv, "kvn": read_kvn}[kind]
    return kind, *read(split_lines(text))


def split_lines(text: str) -> list[str]:
    r"""Split at LF, CRLF and CR only: other separators of Unicode are characters that a record may not hold.

    Examples
    --------
    >>> split_lines("a\r\nb\nc")
    ['a', 'b', 'c']
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def newest_of_each(
    records: list[tuple[int, ElementSet]],
) -> tuple[tuple[ElementSet, ...], tuple[str, ...]]:
    """Keep the newest epoch of each object (of equal epochs the last), and say what was left out.

    Records without a catalogue number (0) are objects of their own.

    Parameters
    ----------
    records : list of (int, ElementSet)
        With the number of the line where each begins.

    Returns
    -------
    element_sets : tuple of ElementSet
        In the order in which the objects first appear.
    notes : tuple of str
    """
    newest: dict[int, tuple[int, ElementSet]] = {}
    lines: dict[int, list[int]] = {}
    unnumbered = 0
    for line, record in records:
        number = record.catalog_number
        if number == 0:
            unnumbered -= 1
            number = unnumbered
        lines.setdefault(number, []).append(line)
        if number not in newest or record.epoch_us >= newest[number][1].epoch_us:
            newest[number] = (line, record)
    notes = tuple(
        f"{number} stands {len(at)} times (lines {', '.join(map(str, at[:5]))}{', ...' * (len(at) > 5)}): "
        f"the newest epoch is used, {format_epoch(newest[number][1].epoch_us)} (line {newest[number][0]})"
        for number, at in lines.items()
        if len(at) > 1
    )
    return tuple(record for _, record in newest.values()), notes


def load(source: str | os.PathLike[str] | Buffer) -> tuple[bytes, str]:
    """Get the bytes, and what to call them in a sentence; the arguments are those of `read_element_sets`."""
    if isinstance(source, Buffer):
        return bytes(source), "the data"
    if str(source) == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        _check_size(data, "standard input")
        return data, "standard input"
    if not isinstance(source, str | os.PathLike):
        raise GpError(f"element sets are read from a file's path, - or bytes, got {source!r}")
    try:
        with Path(source).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise GpError(f"there is no file {source}: give a file of element sets, or - for input") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise GpError(f"{source} cannot be read: {reason}") from None
    _check_size(data, str(source))
    return data, str(source)


def _check_size(data: bytes, called: str) -> None:
    if len(data) > MAX_BYTES:
        raise GpError(f"{called} is larger than {MAX_BYTES // 2**20} MiB: no file of element sets is")


def _decode(data: bytes, called: str) -> str:
    """Decode UTF-8; a byte that is none stays as a surrogate, so that only its own record is refused."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise GpError(f"{called} is UTF-16 text (as Windows PowerShell's > writes it): save it as UTF-8")
    if data.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise GpError(f"{called} is compressed: unpack it first")
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    if not text.strip():
        raise GpError(f"{called} is empty: no element sets are in it")
    return text


def _has_column(header: str, separator: str) -> bool:
    columns = {cell.strip('" ') for cell in header.split(separator)}
    return len(columns) > 1 and bool(columns & {"EPOCH", "MEAN_MOTION", "NORAD_CAT_ID"})


def _recognise(text: str, called: str) -> str:
    """Tell the format from the content."""
    begin = text.lstrip()[:4096]
    if begin.startswith("<"):
        if re.search(r"<(?:\w{1,40}:)?(?:omm|ndm)\b", text):
            return "xml"
        raise GpError(f"{called} is a web page and holds no element sets: look at what the server says there")
    if begin.startswith(("[", "{")) and re.search('"(?:EPOCH|MEAN_MOTION|NORAD_CAT_ID)"', text):
        return "json"
    header = split_lines(begin)[0]
    if _has_column(header, ","):
        return "csv"
    if _has_column(header, ";") or _has_column(header, "\t"):
        raise GpError(f"{called} has columns that are not separated by commas: save it as CSV with commas")
    if re.search(r"(?m)^[ \t]*(?:CCSDS_OMM_VERS|EPOCH|MEAN_MOTION)[ \t]*=", text):
        return "kvn"
    if any(line_kind(line) for line in split_lines(text)):
        return "tle"
    words = " ".join(text.split())
    words = "".join(c if c.isprintable() else "?" for c in words)
    shown = words if len(words) <= 200 else words[:197] + "..."
    raise GpError(f'{called} holds no element sets in any known format. It says: "{shown}"')
