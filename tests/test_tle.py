"""Two-line element sets: strict columns, and a sentence for every class of malformed line."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sgp4.api import Satrec

from orbittrace_data.builders.element_set import BadField, format_epoch
from orbittrace_data.builders.gp import GpError, read_element_sets
from orbittrace_data.builders.tle import checksum, decode_catalog_number, encode_catalog_number, parse_tle

ISS = (
    "ISS (ZARYA)",
    "1 25544U 98067A   24266.39798760  .00041594  00000+0  74589-3 0  9997",
    "2 25544  51.6398 193.8799 0007144  19.4394  84.7888 15.49480284473626",
)
GPS = (
    "GPS BIIR-2  (PRN 13)",
    "1 24876U 97035A   24265.00529271  .00000021  00000+0  00000+0 0  9997",
    "2 24876  55.6989 123.3849 0084386  54.1541 306.7199  2.00561131199238",
)
# A nominal launch: class C, an exponent without a sign, a short revolution number.
LILIUM = (
    "LILIUM-4",
    "1 71922C 26067AC  26089.50133053 -.00014632  00000 0 -74472-3 0    04",
    "2 71922  97.4497  49.1617 0004341   5.9603 355.7042 15.16896692    16",
)


def edit(line: str, column: int, text: str, keep_checksum: bool = False) -> str:
    """Put text at a column (from 1), and make the checksum right again."""
    line = line[: column - 1] + text + line[column - 1 + len(text) :]
    return line if keep_checksum else line[:68] + str(checksum(line))


def read(*lines: str, end: str = "\n"):
    return read_element_sets((end.join(lines) + end).encode("utf-8", "surrogateescape"))


def only_problem(*lines: str) -> str:
    """Read GPS, the lines and a LILIUM: both neighbours load, and give the one problem's sentence."""
    reading = read(*GPS, *lines, *LILIUM)
    assert [e.catalog_number for e in reading.element_sets] == [24876, 71922]
    (problem,) = reading.problems
    return str(problem)


def test_every_field_is_read_from_its_columns():
    (iss,) = read(*ISS).element_sets
    assert iss.catalog_number == 25544
    assert iss.name == "ISS (ZARYA)"
    assert iss.object_id == "1998-067A"
    assert format_epoch(iss.epoch_us) == "2024-09-22T09:33:06.128640Z"
    assert iss.mean_motion_rev_per_day == 15.49480284
    assert iss.eccentricity == 0.0007144
    assert iss.inclination_deg == 51.6398
    assert iss.ra_of_asc_node_deg == 193.8799
    assert iss.arg_of_pericenter_deg == 19.4394
    assert iss.mean_anomaly_deg == 84.7888
    assert iss.bstar_per_earth_radius == 0.74589e-3
    assert iss.mean_motion_dot_rev_per_day2 == 0.00041594
    assert iss.mean_motion_ddot_rev_per_day3 == 0.0
    assert (iss.classification_type, iss.ephemeris_type, iss.element_set_no) == ("U", 0, 999)
    assert iss.rev_at_epoch == 47362
    assert (iss.line1, iss.line2) == ISS[1:]


def test_signs_blanks_and_short_counters_are_read():
    (lilium,) = read(*LILIUM).element_sets
    assert lilium.mean_motion_dot_rev_per_day2 == -0.00014632
    assert lilium.bstar_per_earth_radius == -0.74472e-3
    assert (lilium.classification_type, lilium.element_set_no, lilium.rev_at_epoch) == ("C", 0, 1)
    assert lilium.object_id == "2026-067AC"


@pytest.mark.parametrize("record", [ISS, GPS, LILIUM])
def test_sgp4_reads_the_same_values(record):
    (ours,) = read(*record).element_sets
    theirs = Satrec.twoline2rv(*record[1:])
    assert theirs.satnum == ours.catalog_number
    assert theirs.ecco == ours.eccentricity
    assert theirs.bstar == pytest.approx(ours.bstar_per_earth_radius, rel=1e-15)
    days = (theirs.jdsatepoch - 2440587.5) + theirs.jdsatepochF
    assert ours.epoch_us == pytest.approx(days * 86400e6, abs=1000)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_padding_and_names_do_not_matter(end):
    plain = read(*ISS).element_sets
    assert read(*ISS, end=end).element_sets == plain
    assert read(ISS[0].ljust(24), ISS[1] + "  ", ISS[2] + "\t", end=end).element_sets == plain
    assert read("0 ISS (ZARYA)", *ISS[1:], end=end).element_sets == plain
    assert read("\ufeff# from a friend", "", *ISS, "", end=end).element_sets == plain
    (unnamed,) = read(*ISS[1:], end=end).element_sets
    assert unnamed.name == ""


def test_both_lines_may_pad_the_number_in_their_own_way():
    line1, line2 = edit(ISS[1], 3, "    5"), edit(ISS[2], 3, "00005")
    assert [e.catalog_number for e in read(line1, line2).element_sets] == [5]


def test_a_file_that_ends_after_line_1_is_told():
    reading = read(*GPS, *ISS[:2])
    assert [str(p) for p in reading.problems] == [
        "line 5, line 2: no line 2 follows this line 1: the record is not whole"
    ]


def test_blank_counters_and_a_blank_class_are_read():
    line1 = edit(edit(edit(ISS[1], 8, " "), 63, " "), 65, "    ")
    (plain,) = read(line1, edit(ISS[2], 64, "     ")).element_sets
    assert (plain.classification_type, plain.ephemeris_type) == ("U", 0)
    assert (plain.element_set_no, plain.rev_at_epoch) == (0, 0)


def test_comments_are_passed_over():
    reading = read("# one", *GPS, "# two", ISS[0], "# three", *ISS[1:])
    assert [e.name for e in reading.element_sets] == [GPS[0], ISS[0]]
    assert reading.problems == ()


def test_a_name_may_look_like_a_line_number():
    (named,) = read("1 DEGREE TO THE LEFT", *ISS[1:]).element_sets
    assert named.name == "1 DEGREE TO THE LEFT"


def test_a_file_without_a_last_line_end_is_whole():
    assert read_element_sets("\n".join(ISS).encode()).element_sets == read(*ISS).element_sets


BAD = {
    "checksum": (
        (ISS[0], edit(ISS[1], 69, "8", keep_checksum=True), ISS[2]),
        "line 5, checksum: the line says 8 but its characters give 7: one of them was changed",
    ),
    "checksum of line 2": (
        (*ISS[:2], edit(ISS[2], 69, "0", keep_checksum=True)),
        "line 6, checksum: the line says 0 but its characters give 6: one of them was changed",
    ),
    "short line": (
        (*ISS[:2], ISS[2][:29] + ISS[2][30:]),
        "line 6, columns: the line has 68 characters and must have 69: it was cut or lost characters",
    ),
    "long line": (
        (ISS[0], ISS[1] + "7", ISS[2]),
        "line 5, columns: the line has 70 characters and must have 69: something was inserted or appended",
    ),
    "six-digit number": (
        (ISS[0], "1 125544U" + ISS[1][8:], ISS[2]),
        "line 5, columns: the line has 70 characters and must have 69: something was inserted or appended",
    ),
    "leading space": (
        (ISS[0], " " + ISS[1], ISS[2]),
        "line 5, columns: the line begins with a blank: remove it, a TLE is read by column",
    ),
    "shifted column": (
        (ISS[0], edit(ISS[1][:8] + ISS[1][9:24] + " " + ISS[1][24:], 69, "7"), ISS[2]),
        "line 5, columns: '9' stands in column 9, where a blank must stand",
    ),
    "numbers that differ": (
        (*ISS[:2], edit(ISS[2], 3, "25545")),
        "line 6, catalogue number: line 1 is of 25544 and line 2 of 25545: they belong to different objects",
    ),
    "Alpha-5 in lower case": (
        (ISS[0], edit(ISS[1], 3, "a5544"), edit(ISS[2], 3, "a5544")),
        "line 5, catalogue number: 'a5544' stands in columns 3 to 7, where five digits, or one of A-H, J-N, "
        "P-Z and four digits (Alpha-5) must stand",
    ),
    "Alpha-5 with an I": (
        (ISS[0], edit(ISS[1], 3, "I5544"), edit(ISS[2], 3, "I5544")),
        "line 5, catalogue number: 'I5544' stands in columns 3 to 7, where five digits, or one of A-H, J-N, "
        "P-Z and four digits (Alpha-5) must stand",
    ),
    "letter in the epoch": (
        (ISS[0], edit(ISS[1], 26, "O"), ISS[2]),
        "line 5, epoch day: '266.3O798760' stands in columns 21 to 32, where the day of the year, "
        "ddd.dddddddd must stand",
    ),
    "SGP4-XP": (
        (ISS[0], edit(ISS[1], 63, "4"), ISS[2]),
        "line 5, ephemeris type: 4 (SGP4-XP) is not SGP4: 0 and 2 are",
    ),
    "class in lower case": (
        (ISS[0], edit(ISS[1], 8, "u"), ISS[2]),
        "line 5, classification: 'u' stands in column 8, where a capital letter (U, C or S) must stand",
    ),
    "day of the year": (
        (ISS[0], edit(ISS[1], 21, "367.00000000"), ISS[2]),
        "line 5, epoch day: 367.00000000 is outside the days 1 to 366 of 2024",
    ),
    "day 366 of a common year": (
        (ISS[0], edit(ISS[1], 19, "25366"), ISS[2]),
        "line 5, epoch day: 366.39798760 is outside the days 1 to 365 of 2025",
    ),
    "day zero": (
        (ISS[0], edit(ISS[1], 21, "000.00000000"), ISS[2]),
        "line 5, epoch day: 000.00000000 is outside the days 1 to 366 of 2024",
    ),
    "inclination": (
        (*ISS[:2], edit(ISS[2], 9, "181.0000")),
        "line 6, inclination: 181.0 degrees is outside 0 to 180",
    ),
    "negative angle": (
        (*ISS[:2], edit(ISS[2], 9, "-51.6398")),
        "line 6, inclination: '-51.6398' stands in columns 9 to 16, where degrees with four decimals, "
        "without a "
        "sign must stand",
    ),
    "node": (
        (*ISS[:2], edit(ISS[2], 18, "360.0001")),
        "line 6, right ascension of node: 360.0001 degrees is outside 0 to 360",
    ),
    "mean motion of zero": (
        (*ISS[:2], edit(ISS[2], 53, " 0.00000000")),
        "line 6, mean motion: 0.0 revolutions a day is outside 0 < n <= 18: an orbit at the Earth's surface "
        "makes 17.04",
    ),
    "mean motion below the ground": (
        (*ISS[:2], edit(ISS[2], 53, "19.00000000")),
        "line 6, mean motion: 19.0 revolutions a day is outside 0 < n <= 18: an orbit at the Earth's surface "
        "makes 17.04",
    ),
    "no-break space": (
        (ISS[0], edit(ISS[1], 9, "\xa0"), ISS[2]),
        "line 5, columns: a no-break space (U+00A0) stands in column 9: a TLE is plain ASCII",
    ),
    "no-break space before the number of line 1": (
        (ISS[0], edit(ISS[1], 2, "\xa0"), ISS[2]),
        "line 5, columns: a no-break space (U+00A0) stands in column 2: a TLE is plain ASCII",
    ),
    "no-break space before the number of line 2": (
        (*ISS[:2], edit(ISS[2], 2, "\xa0")),
        "line 6, columns: a no-break space (U+00A0) stands in column 2: a TLE is plain ASCII",
    ),
    "digits of another script": (
        (ISS[0], edit(ISS[1], 3, "\u0662"), ISS[2]),
        "line 5, columns: the character '\u0662' (U+0662) stands in column 3: a TLE is plain ASCII",
    ),
    "invalid UTF-8": (
        (ISS[0], edit(ISS[1], 10, "\udcff"), ISS[2]),
        "line 5, columns: a byte 0xFF that is not UTF-8 stands in column 10: a TLE is plain ASCII",
    ),
    "tab": (
        (ISS[0], edit(ISS[1], 9, "\t"), ISS[2]),
        "line 5, columns: a tab stands in column 9: a TLE is plain ASCII",
    ),
    "no line 2": (
        ISS[:2],
        "line 5, line 2: no line 2 follows this line 1: the record is not whole",
    ),
    "no line 1": (
        (ISS[0], ISS[2]),
        "line 5, line 2: there is no line 1 before it: the record is not whole",
    ),
    "name alone": (
        (ISS[0],),
        "line 4, record: 'ISS (ZARYA)' is followed by no line 1 and line 2",
    ),
    "HTML": (
        ("<p>the server is busy</p>",),
        "line 4, record: '<p>the server is busy</p>' is followed by no line 1 and line 2",
    ),
    "control character in a name": (
        ("ISS \x1b[31m", *ISS[1:]),
        "line 4, name: 'ISS ?[31m' holds a control character (0x1B), which is not printable text",
    ),
    "no-break space in a name": (
        ("ISS\xa0(ZARYA)", *ISS[1:]),
        "line 4, name: 'ISS?(ZARYA)' holds a no-break space (U+00A0), which is not printable text",
    ),
    "name too long": (
        ("I" * 81, *ISS[1:]),
        "line 4, name: 'IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII...' has 81 characters, at most 80 are allowed",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_record_is_told_by_line_field_and_reason_and_its_neighbours_load(case):
    lines, sentence = BAD[case]
    assert only_problem(*lines) == sentence


@pytest.mark.parametrize("case", BAD)
def test_strict_refuses_the_file(case):
    lines, sentence = BAD[case]
    content = "\n".join([*GPS, *lines, *LILIUM]).encode("utf-8", "surrogateescape")
    with pytest.raises(GpError, match=r"^the data has 1 bad record: line ") as error:
        read_element_sets(content, strict=True)
    assert sentence in str(error.value)


def test_a_file_cut_in_the_middle_of_a_record_loads_what_is_whole():
    content = "\n".join([*GPS, *ISS]).encode()
    reading = read_element_sets(content[:-30])
    assert [e.catalog_number for e in reading.element_sets] == [24876]
    assert [str(p) for p in reading.problems] == [
        "line 6, columns: the line has 39 characters and must have 69: it was cut or lost characters"
    ]


def test_every_cut_of_a_file_loads_whole_records_or_says_what_is_missing():
    content = "\n".join([*GPS, *ISS]).encode()
    whole = read_element_sets(content)
    for length in range(len("\n".join(GPS)), len(content)):
        reading = read_element_sets(content[:length])
        assert reading.element_sets == whole.element_sets[:1]
        if content[len("\n".join(GPS)) : length].strip():
            assert reading.problems


ALPHA5 = {"00005": 5, "    5": 5, "99999": 99999, "A0000": 100000, "H9999": 179999, "J0000": 180000}
ALPHA5 |= {"N9999": 229999, "P0000": 230000, "T0449": 270449, "Z9999": 339999}


@pytest.mark.parametrize("field", ALPHA5)
def test_alpha5(field):
    assert decode_catalog_number(field) == ALPHA5[field]
    assert encode_catalog_number(ALPHA5[field]) == field.replace(" ", "0")


@pytest.mark.parametrize(
    "field",
    [
        "a0001",
        "I0001",
        "O0001",
        "A000",
        "A 001",
        "2554\xa0",
        "-0001",
        "+0001",
        "12 34",
        "AA001",
        "\u0661" * 5,
    ],
)
def test_what_is_no_catalogue_number_is_refused(field):
    with pytest.raises(BadField, match="catalogue number"):
        decode_catalog_number(field)


@pytest.mark.parametrize("number", [-1, 340000, 799501621])
def test_a_tle_cannot_hold_every_number(number):
    with pytest.raises(BadField, match="write it as OMM"):
        encode_catalog_number(number)


@given(st.integers(0, 339_999))
def test_catalogue_numbers_go_around(number):
    assert decode_catalog_number(encode_catalog_number(number)) == number


@pytest.mark.parametrize(("two_digits", "year"), [("57", 1957), ("99", 1999), ("00", 2000), ("56", 2056)])
def test_the_years_pivot_is_57(two_digits, year):
    line1 = edit(ISS[1], 19, f"{two_digits}001.00000000")
    element_set = parse_tle("", line1, ISS[2])
    expected = dt.datetime(year, 1, 1, tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert element_set.epoch_us == round(expected.total_seconds() * 1e6)


@settings(deadline=None, max_examples=60)
@given(st.integers(1957, 2056), st.integers(1, 365), st.integers(0, 99_999_999))
def test_the_epoch_is_exact(year, day, fraction):
    element_set = parse_tle("", edit(ISS[1], 19, f"{year % 100:02d}{day:03d}.{fraction:08d}"), ISS[2])
    midnight = dt.datetime(year, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=day - 1)
    assert element_set.epoch_us == round(midnight.timestamp()) * 1_000_000 + fraction * 864


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the data is empty: no element sets are in it"),
        (b"\xef\xbb\xbf \r\n", "the data is empty: no element sets are in it"),
        (
            b"No GP data found",
            'the data holds no element sets in any known format. It says: "No GP data found"',
        ),
        (
            b'Invalid query: "GROUP=nope&FORMAT=TLE" (GROUP=nope not found)',
            "the data holds no element sets in any known format. It says: "
            '"Invalid query: "GROUP=nope&FORMAT=TLE" (GROUP=nope not found)"',
        ),
        (
            b"<!DOCTYPE html><html>1 25544U</html>",
            "the data is a web page and holds no element sets: look at what the server says there",
        ),
        (
            "ISS".encode("utf-16"),
            "the data is UTF-16 text (as Windows PowerShell's > writes it): save it as UTF-8",
        ),
        (b"\x1f\x8b\x08\x00", "the data is compressed: unpack it first"),
        (b"\x00\x01\x02", 'the data holds no element sets in any known format. It says: "???"'),
    ],
)
def test_a_file_that_holds_something_else_is_refused_with_its_words(content, sentence):
    with pytest.raises(GpError) as error:
        read_element_sets(content)
    assert str(error.value) == sentence


def test_strict_shows_five_problems_and_counts_the_others():
    bad = (ISS[0], edit(ISS[1], 69, "8", keep_checksum=True), ISS[2])
    content = "\n".join(bad * 7).encode()
    with pytest.raises(GpError) as error:
        read_element_sets(content, strict=True)
    assert str(error.value).startswith("the data has 7 bad records: line 2, checksum: ")
    assert str(error.value).count("checksum") == 5
    assert str(error.value).endswith("; and 2 more")
    assert read_element_sets("\n".join(ISS).encode(), strict=True).problems == ()


def test_long_words_are_cut():
    with pytest.raises(GpError) as error:
        read_element_sets(b"no " * 1000)
    assert str(error.value).endswith('no no..."')
    assert len(str(error.value)) < 300


def test_a_file_of_no_plausible_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("orbittrace_data.builders.gp.MAX_BYTES", 2**20)
    path = tmp_path / "large.tle"
    path.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(GpError, match="is larger than 1 MiB: no file of element sets is"):
        read_element_sets(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(GpError, match=r"there is no file .*nope\.tle"):
        read_element_sets(tmp_path / "nope.tle")
    with pytest.raises(GpError, match="cannot be read: Is a directory"):
        read_element_sets(tmp_path)


def test_a_path_and_standard_input_read_like_bytes(tmp_path, monkeypatch):
    path = tmp_path / "iss.tle"
    path.write_text("\n".join(ISS))
    expected = read(*ISS)
    assert read_element_sets(path) == read_element_sets(str(path)) == expected
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert read_element_sets("-") == expected


def test_of_duplicates_the_newest_epoch_wins_and_it_is_said():
    older = edit(ISS[1], 19, "24265.00000000")
    reading = read("OLD", older, ISS[2], *GPS, *ISS, "OLD", older, ISS[2])
    assert [(e.catalog_number, e.name) for e in reading.element_sets] == [
        (25544, "ISS (ZARYA)"),
        (24876, "GPS BIIR-2  (PRN 13)"),
    ]
    assert reading.notes == (
        "25544 stands 3 times (lines 2, 8, 11): the newest epoch is used, 2024-09-22T09:33:06.128640Z "
        "(line 8)",
    )
