"""Two-line element sets: reading 2LE and 3LE text strictly by column, and writing a TLE.

The columns are those of the Space-Track and CelesTrak format descriptions. Every line that this module
accepts has 69 ASCII characters, each field in its columns, and a checksum that holds; SGP4's own parser
checks none of it (it reads HTML as an orbit without complaint), so nothing reaches it unchecked.
"""

import datetime as dt
import re
from collections.abc import Sequence

from .element_set import (
    BadField,
    ElementSet,
    Problem,
    check_elements,
    check_ephemeris_type,
    check_name,
    describe_character,
    quote,
)

MAX_TLE_CATALOG_NUMBER = 339_999

# Alpha-5: a letter for the first two digits, A = 10 to Z = 33, without I and O.
_ALPHA5 = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def _padded(width: int, least: int = 0) -> str:
    """Match exactly ``width`` characters: digits after leading blanks, at least ``least`` of them."""
    return "(?:" + "|".join(" " * (width - n) + "[0-9]" * n for n in range(width, least - 1, -1)) + ")"


_CATALOG = f"(?:{_padded(5, 1)}|[A-HJ-NP-Z][0-9]{{4}})"
_DECIMAL_EXPONENT = r"[ +-][0-9]{5}[ +-][0-9]"
_ANGLE = _padded(3) + r"\.[0-9]{4}"

# name, first column (from 1), width, pattern, what must stand there; the gaps between are single spaces.
_Field = tuple[str, int, int, str, str]
_LINE_1: tuple[_Field, ...] = (
    ("catalogue number", 3, 5, _CATALOG, "five digits, or one of A-H, J-N, P-Z and four digits (Alpha-5)"),
    ("classification", 8, 1, r"[A-Z ]", "a capital letter (U, C or S)"),
    ("international designator", 10, 8, r"[0-9A-Z ]{8}", "year, launch and piece such as 98067A, or blanks"),
    ("epoch year", 19, 2, r"[0-9]{2}", "two digits"),
    ("epoch day", 21, 12, _padded(3, 1) + r"\.[0-9]{8}", "the day of the year, ddd.dddddddd"),
    ("mean motion dot", 34, 10, r"[ +\-0-9]\.[0-9]{8}", "a sign or a blank, a point and eight digits"),
    ("mean motion ddot", 45, 8, _DECIMAL_EXPONENT, "a signed mantissa and exponent such as ' 12345-5'"),
    ("drag term BSTAR", 54, 8, _DECIMAL_EXPONENT, "a signed mantissa and exponent such as ' 12345-5'"),
    ("ephemeris type", 63, 1, r"[0-9 ]", "one digit"),
    ("element set number", 65, 4, _padded(4), "up to four digits"),
    ("checksum", 69, 1, r"[0-9]", "one digit"),
)
_LINE_2: tuple[_Field, ...] = (
    ("catalogue number", 3, 5, _CATALOG, "five digits, or one of A-H, J-N, P-Z and four digits (Alpha-5)"),
    ("inclination", 9, 8, _ANGLE, "degrees with four decimals, without a sign"),
    ("right ascension of node", 18, 8, _ANGLE, "degrees with four decimals, without a sign"),
    ("eccentricity", 27, 7, r"[0-9]{7}", "seven digits, the leading point understood"),
    ("argument of perigee", 35, 8, _ANGLE, "degrees with four decimals, without a sign"),
    ("mean anomaly", 44, 8, _ANGLE, "degrees with four decimals, without a sign"),
    ("mean motion", 53, 11, _padded(2) + r"\.[0-9]{8}", "revolutions a day with eight decimals"),
    ("revolution number", 64, 5, _padded(5), "up to five digits"),
    ("checksum", 69, 1, r"[0-9]", "one digit"),
)


def _line_pattern(number: str, fields: tuple[_Field, ...]) -> re.Pattern[str]:
    """Join the fields' patterns, each of a fixed width, into one for the whole line."""
    pattern, column = number + " ", 3
    for _, first, width, field, _ in fields:
        pattern += " " * (first - column) + f"({field})"
        column = first + width
    return re.compile(pattern)


_PATTERN_1, _PATTERN_2 = _line_pattern("1", _LINE_1), _line_pattern("2", _LINE_2)
# A digit counts its value and a minus sign one.
_CHECKSUM_VALUES = bytes(c - 48 if 48 <= c <= 57 else int(c == 45) for c in range(256))
_JANUARY_1_US = tuple(
    round((dt.datetime(year, 1, 1) - dt.datetime(1970, 1, 1)).total_seconds()) * 1_000_000
    for year in range(1957, 2058)
)


def checksum(line: str) -> int:
    """Sum a line's first 68 characters modulo 10, a minus sign counting one and other characters nothing.

    Examples
    --------
    >>> checksum("1 25544U 98067A   98324.28472222 -.00003657  11563-4  00000+0 0    10")
    0
    """
    return sum(line[:68].encode("ascii", "replace").translate(_CHECKSUM_VALUES)) % 10


def decode_catalog_number(field: str) -> int:
    """Read the five characters of a TLE's catalogue number, in digits or strict Alpha-5.

    Raises
    ------
    BadField
        For anything else: I, O and lower-case letters included.

    Examples
    --------
    >>> decode_catalog_number("25544"), decode_catalog_number("A0000"), decode_catalog_number("Z9999")
    (25544, 100000, 339999)
    """
    if not re.fullmatch(_CATALOG, field):
        raise BadField("catalogue number", f"{quote(field)} stands where {_LINE_1[0][4]} must stand")
    if field[0] in _ALPHA5:
        return (10 + _ALPHA5.index(field[0])) * 10_000 + int(field[1:])
    return int(field)


def encode_catalog_number(number: int) -> str:
    """Write a catalogue number in a TLE's five characters.

    Raises
    ------
    BadField
        If the number is negative or above 339999.

    Examples
    --------
    >>> encode_catalog_number(25544), encode_catalog_number(100000), encode_catalog_number(339999)
    ('25544', 'A0000', 'Z9999')
    """
    if not 0 <= number <= MAX_TLE_CATALOG_NUMBER:
        raise BadField(
            "catalogue number",
            f"a TLE holds 0 to {MAX_TLE_CATALOG_NUMBER} and not {number}: write it as OMM",
        )
    if number < 100_000:
        return f"{number:05d}"
    return f"{_ALPHA5[number // 10_000 - 10]}{number % 10_000:04d}"


def parse_tle(name: str, line1: str, line2: str) -> ElementSet:
    """Read one two-line element set.

    Parameters
    ----------
    name : str
        The object's name, ``""`` if unknown.
    line1, line2 : str
        69 characters each.

    Returns
    -------
    ElementSet

    Raises
    ------
    BadLine
        Naming the line (1 or 2), the field and the reason.

    Examples
    --------
    >>> iss = parse_tle(
    ...     "ISS (ZARYA)",
    ...     "1 25544U 98067A   98324.28472222 -.00003657  11563-4  00000+0 0    10",
    ...     "2 25544  51.5908 168.3788 0125362  86.4185 359.7454 16.05064833    05",
    ... )
    >>> iss.catalog_number, iss.object_id, iss.epoch_us, iss.eccentricity
    (25544, '1998-067A', 911544599999808, 0.0125362)
    """
    one = _match(1, _PATTERN_1, _LINE_1, line1)
    two = _match(2, _PATTERN_2, _LINE_2, line2)
    field, classification, designator, year, day, dot, ddot, bstar, kind, set_number, _ = one
    number = decode_catalog_number(field)
    if decode_catalog_number(two[0]) != number:
        raise BadLine(
            2,
            "catalogue number",
            f"line 1 is of {field.strip()} and line 2 of {two[0].strip()}: they belong to different objects",
        )
    ephemeris_type = int(kind.strip() or 0)
    try:
        epoch_us = _epoch_us(year, day)
        check_ephemeris_type(ephemeris_type)
    except BadField as bad:
        raise BadLine(1, bad.field, bad.reason) from None
    mean_motion, eccentricity, inclination = float(two[6]), float(f"0.{two[3]}"), float(two[1])
    node, perigee, anomaly = float(two[2]), float(two[4]), float(two[5])
    try:
        check_elements(
            mean_motion,
            eccentricity,
            inclination,
            **{"right ascension of node": node, "argument of perigee": perigee, "mean anomaly": anomaly},
        )
    except BadField as bad:
        raise BadLine(2, bad.field, bad.reason) from None
    return ElementSet(
        catalog_number=number,
        name=name,
        object_id=_object_id(designator),
        epoch_us=epoch_us,
        mean_motion_rev_per_day=mean_motion,
        eccentricity=eccentricity,
        inclination_deg=inclination,
        ra_of_asc_node_deg=node,
        arg_of_pericenter_deg=perigee,
        mean_anomaly_deg=anomaly,
        bstar_per_earth_radius=_decimal_exponent(bstar),
        mean_motion_dot_rev_per_day2=float(dot) + 0.0,  # -0 is 0: the same element has one digest
        mean_motion_ddot_rev_per_day3=_decimal_exponent(ddot),
        classification_type="U" if classification == " " else classification,
        ephemeris_type=ephemeris_type,
        element_set_no=int(set_number.strip() or 0),
        rev_at_epoch=int(two[7].strip() or 0),
        line1=line1,
        line2=line2,
    )


class BadLine(BadField):
    """A field of line 1 or 2 of a TLE cannot be used; ``number`` says which line."""

    def __init__(self, number: int, field: str, reason: str):
        super().__init__(field, reason)
        self.number = number


def read_tle_lines(lines: Sequence[str]) -> tuple[list[tuple[int, ElementSet]], list[Problem]]:
    """Read the element sets of 2LE or 3LE text; what cannot be read is a problem and its neighbours load.

    Parameters
    ----------
    lines : sequence of str
        Without line ends. Blank lines and lines that begin with ``#`` are passed over; trailing blanks do
        not count.

    Returns
    -------
    records : list of (int, ElementSet)
        With the number (from 1) of the line that holds its line 1.
    problems : list of Problem
    """
    records: list[tuple[int, ElementSet]] = []
    problems: list[Problem] = []
    name: tuple[int, str] | None = None
    first: tuple[int, str] | None = None
    for number, text in enumerate(lines, 1):
        line = text.rstrip(" \t\r")
        if not line or line[0] == "#":
            continue
        kind = line_kind(line)
        if kind == 2 and first is not None:
            try:
                records.append((first[0], parse_tle(_clean_name(name), first[1], line)))
            except BadLine as bad:
                problems.append(Problem(first[0] if bad.number == 1 else number, bad.field, bad.reason))
            except BadField as bad:
                problems.append(Problem(name[0] if name else number, bad.field, bad.reason))
            name = first = None
            continue
        if first is not None:
            problems.append(_missing_line_2(first))
            name = first = None
        if kind == 1:
            first = (number, line)
        elif kind == 2:
            problems.append(
                Problem(number, "line 2", "there is no line 1 before it: the record is not whole")
            )
            name = None
        else:
            if name is not None:
                problems.append(_not_a_record(name))
            name = (number, line)
    if first is not None:
        problems.append(_missing_line_2(first))
    elif name is not None:
        problems.append(_not_a_record(name))
    return records, problems


def line_kind(line: str) -> int:
    """Tell line 1 and line 2 from names (0): a name may begin with "1 " too.

    A line that is indented by mistake, or whose blank is another white space, counts: the mistake is told.
    """
    line = line.lstrip()
    if (
        line[:1] in ("1", "2")
        and line[1:2].isspace()
        and (len(line) > 40 or re.fullmatch(_CATALOG, line[2:7]))
    ):
        return int(line[0])
    return 0


def _missing_line_2(first: tuple[int, str]) -> Problem:
    return Problem(first[0], "line 2", "no line 2 follows this line 1: the record is not whole")


def _not_a_record(name: tuple[int, str]) -> Problem:
    number, text = name
    return Problem(number, "record", f"{quote(text)} is followed by no line 1 and line 2")


def _clean_name(name: tuple[int, str] | None) -> str:
    if name is None:
        return ""
    return check_name(name[1].removeprefix("0 ").strip())


def _match(number: int, pattern: re.Pattern[str], fields: tuple[_Field, ...], line: str) -> tuple[str, ...]:
    """Give the fields of a line that holds, or say what does not."""
    found = pattern.fullmatch(line)
    if found is None or checksum(line) != int(line[68]):
        raise _diagnose(number, fields, line)
    return found.groups()


def _diagnose(number: int, fields: tuple[_Field, ...], line: str) -> BadLine:
    """Find the first thing that is wrong with a line that did not match."""
    for column, character in enumerate(line, 1):
        if not " " <= character <= "~":
            what = describe_character(character)
            return BadLine(number, "columns", f"{what} stands in column {column}: a TLE is plain ASCII")
    if line[0] == " ":
        return BadLine(number, "columns", "the line begins with a blank: remove it, a TLE is read by column")
    if len(line) != 69:
        return BadLine(
            number,
            "columns",
            f"the line has {len(line)} characters and must have 69: "
            + ("it was cut or lost characters" if len(line) < 69 else "something was inserted or appended"),
        )
    column = 2
    for name, first, width, pattern, allowed in fields:
        for blank in range(column, first):
            if line[blank - 1] != " ":
                return BadLine(
                    number,
                    "columns",
                    f"'{line[blank - 1]}' stands in column {blank}, where a blank must stand",
                )
        text = line[first - 1 : first - 1 + width]
        if not re.fullmatch(pattern, text):
            where = f"column {first}" if width == 1 else f"columns {first} to {first + width - 1}"
            return BadLine(number, name, f"{quote(text)} stands in {where}, where {allowed} must stand")
        column = first + width
    return BadLine(
        number,
        "checksum",
        f"the line says {line[68]} but its characters give {checksum(line)}: one of them was changed",
    )


def _epoch_us(year: str, day: str) -> int:
    """Turn a two-digit year (57 to 99 are 1957 to 1999) and a day of the year into UTC microseconds."""
    full_year = int(year) + (1900 if int(year) >= 57 else 2000)
    whole, fraction = day.split(".")
    days = 366 if full_year % 4 == 0 else 365
    day_of_year = int(whole)
    if not 1 <= day_of_year <= days:
        raise BadField("epoch day", f"{day.strip()} is outside the days 1 to {days} of {full_year}")
    return _JANUARY_1_US[full_year - 1957] + (day_of_year - 1) * 86_400_000_000 + int(fraction) * 864


def _decimal_exponent(text: str) -> float:
    """Read ' 12345-5' as 0.12345e-5."""
    sign = "-" if text[0] == "-" else ""
    exponent = "-" if text[6] == "-" else ""
    return float(f"{sign}0.{text[1:6]}e{exponent}{text[7]}") + 0.0


def _object_id(designator: str) -> str:
    """Write 98067A as 1998-067A; a designator of another shape stays as it stands."""
    found = re.fullmatch(r"([0-9]{2})([0-9]{3})([A-Z]{1,3}) *", designator)
    if found is None:
        return designator.strip()
    year, launch, piece = found.groups()
    return f"{'19' if int(year) >= 57 else '20'}{year}-{launch}{piece}"
