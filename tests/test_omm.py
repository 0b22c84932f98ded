"""Orbit mean-elements messages in CSV, JSON, XML and KVN, and a sentence for each kind of bad one."""

import dataclasses
import tracemalloc

import pytest
from gp_samples import ANALYST, ISS, NOMINAL, TEXTS, TLE, csv_text, json_text, kvn_text, xml_text
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.builders.element_set import BadField, format_epoch
from orbittrace_data.builders.gp import GpError, read_element_sets
from orbittrace_data.builders.omm import parse_catalog_number, parse_epoch, parse_omm


def read(text: str):
    return read_element_sets(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("form", TEXTS)
def test_every_format_gives_what_the_tle_gives(form):
    (from_tle,) = read(TLE).element_sets
    reading = read(TEXTS[form](ISS))
    assert reading.format == form.removeprefix("space_track_").removesuffix("_indented")
    assert reading.element_sets == (dataclasses.replace(from_tle, line1=None, line2=None),)
    assert reading.problems == reading.notes == ()


@pytest.mark.parametrize("form", TEXTS)
def test_nine_digits_and_empty_designators_are_read(form):
    reading = read(TEXTS[form](ISS, NOMINAL, ANALYST))
    assert [(e.catalog_number, e.object_id) for e in reading.element_sets] == [
        (25544, "1998-067A"),
        (799501621, ""),
        (270449, ""),
    ]
    assert reading.problems == ()


@pytest.mark.parametrize("form", TEXTS)
def test_a_name_is_read_with_its_markup(form):
    named = ISS | {"OBJECT_NAME": "R&D <1> 'A'"}
    assert read(TEXTS[form](named)).element_sets[0].name == "R&D <1> 'A'"


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("encoded", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_does_not_matter(form, encoded):
    assert len(read_element_sets(TEXTS[form](ISS).encode(encoded)).element_sets) == 1


VALUES = {
    ("ECCENTRICITY", "1.0"): "1.0 is outside 0 <= e < 1, the bound orbits",
    ("ECCENTRICITY", "-.1"): "-0.1 is outside 0 <= e < 1, the bound orbits",
    ("ECCENTRICITY", "NaN"): "'NaN' is no finite decimal number",
    ("ECCENTRICITY", "0,1"): None,
    ("MEAN_MOTION", "1e999"): "'1e999' is no finite decimal number",
    (
        "MEAN_MOTION",
        "0",
    ): "0.0 revolutions a day is outside 0 < n <= 18: an orbit at the Earth's surface makes 17.04",
    ("MEAN_MOTION", ""): "it is missing, and SGP4 needs it",
    ("MEAN_MOTION", "15.4.9"): "'15.4.9' is no finite decimal number",
    ("MEAN_MOTION", "15_000"): "'15_000' is no finite decimal number",
    ("MEAN_MOTION", "\u0661\u0665"): "'\u0661\u0665' is no finite decimal number",
    ("MEAN_MOTION", "15.5\xa0"): "'15.5?' is no finite decimal number",
    ("INCLINATION", "180.01"): "180.01 degrees is outside 0 to 180",
    ("RA_OF_ASC_NODE", "-1.5"): "-1.5 degrees is outside 0 to 360",
    ("MEAN_ANOMALY", "360.5"): "360.5 degrees is outside 0 to 360",
    ("BSTAR", "Infinity"): "'Infinity' is no finite decimal number",
    ("NORAD_CAT_ID", "A0000"): "'A0000' is no integer of up to nine digits",
    ("NORAD_CAT_ID", "1000000000"): "'1000000000' is no integer of up to nine digits",
    ("NORAD_CAT_ID", "25544.0"): "'25544.0' is no integer of up to nine digits",
    ("NORAD_CAT_ID", "-5"): "'-5' is no integer of up to nine digits",
    ("REV_AT_EPOCH", "1.5"): "'1.5' is no integer from 0 to 999999999",
    ("REV_AT_EPOCH", "1000000000"): "'1000000000' is no integer from 0 to 999999999",
    ("EPHEMERIS_TYPE", "3"): "3 is not SGP4: 0 and 2 are",
    ("EPHEMERIS_TYPE", "4"): "4 (SGP4-XP) is not SGP4: 0 and 2 are",
    ("CLASSIFICATION_TYPE", "u"): "'u' is no capital letter (U, C or S)",
    ("EPOCH", "2024-09-22 09:33:06"): "'2024-09-22 09:33:06' is no UTC instant: write it as "
    "2026-09-20T12:42:37.141056 (Z may follow)",
    ("EPOCH", "2024-02-30T00:00:00"): "'2024-02-30T00:00:00' names a day that does not exist",
    ("EPOCH", "2023-366T00:00:00"): "'2023-366T00:00:00' names a day that does not exist",
    ("EPOCH", "2024-09-22T24:00:00"): "'2024-09-22T24:00:00' names a time that UTC did not have",
    ("EPOCH", "2024-09-22T09:60:00"): "'2024-09-22T09:60:00' names a time that UTC did not have",
    ("EPOCH", "2024-09-22T09:59:60"): "'2024-09-22T09:59:60' names a time that UTC did not have",
    ("EPOCH", "2024-12-31T23:59:60"): "'2024-12-31T23:59:60' names a time that UTC did not have",
    ("EPOCH", "1956-12-31T00:00:00"): "'1956-12-31T00:00:00' is not within the years 1957 to 2099",
    ("OBJECT_NAME", "ISS\x7f"): "'ISS?' holds a control character (0x7F), which is not printable text",
    ("OBJECT_NAME", "ISS\udcff"): None,
    ("OBJECT_ID", "1998\u202e"): "'1998?' holds the character (U+202E), which is not printable text",
}


@pytest.mark.parametrize("form", ["csv", "space_track_json", "kvn", "xml"])
@pytest.mark.parametrize(("keyword", "value"), VALUES)
def test_a_bad_value_is_told_and_the_neighbours_load(form, keyword, value):
    reason = VALUES[keyword, value]
    if value == "" and form == "kvn":
        reason = "it is missing, and SGP4 needs it"
    text = TEXTS[form](NOMINAL, ISS | {keyword: value}, ANALYST)
    if "\udcff" in value and form == "space_track_json":
        text = text.replace("\\udcff", "\udcff")
    reading = read(text)
    assert [e.catalog_number for e in reading.element_sets] == [799501621, 270449]
    (problem,) = reading.problems
    if reason is None:  # the format itself is broken by this one
        return
    assert (problem.field, problem.reason) == (keyword, reason)
    assert problem.line >= 1
    if keyword != "NORAD_CAT_ID":
        assert problem.record == "25544"


def test_the_line_of_a_problem_is_where_it_stands():
    bad = ISS | {"ECCENTRICITY": "2"}
    problem = "record 25544, ECCENTRICITY: 2.0 is outside 0 <= e < 1, the bound orbits"
    assert str(read(csv_text(NOMINAL, bad)).problems[0]) == f"line 3, {problem}"
    kvn = kvn_text(NOMINAL, bad)
    line = kvn.splitlines().index("ECCENTRICITY        = 2") + 1
    assert str(read(kvn).problems[0]) == f"line {line}, {problem}"
    xml = xml_text(NOMINAL, bad)
    line = xml.splitlines().index("<ECCENTRICITY>2</ECCENTRICITY>") + 1
    assert str(read(xml).problems[0]) == f"line {line}, {problem}"
    indented = json_text(NOMINAL, bad, indent=1)
    line = [n for n, text in enumerate(indented.splitlines(), 1) if text.strip() == "{"][1]
    assert str(read(indented).problems[0]) == f"line {line}, {problem}"


@pytest.mark.parametrize(
    ("keyword", "value", "reason"),
    [
        ("CENTER_NAME", "MARS", "'MARS' cannot be used: it must be EARTH"),
        ("REF_FRAME", "EME2000", "'EME2000' cannot be used: it must be TEME"),
        ("TIME_SYSTEM", "TAI", "'TAI' cannot be used: it must be UTC"),
        ("MEAN_ELEMENT_THEORY", "SGP4-XP", "'SGP4-XP' cannot be used: it must be SGP4 or SGP/SGP4"),
        ("MEAN_ELEMENT_THEORY", "DSST", "'DSST' cannot be used: it must be SGP4 or SGP/SGP4"),
    ],
)
def test_elements_of_another_kind_are_refused(keyword, value, reason):
    with pytest.raises(BadField) as error:
        parse_omm(ISS | {keyword: value})
    assert str(error.value) == f"{keyword}: {reason}"


def test_a_semi_major_axis_is_no_mean_motion():
    with pytest.raises(BadField, match="there is a SEMI_MAJOR_AXIS instead: these are no SGP4 elements"):
        parse_omm({k: v for k, v in ISS.items() if k != "MEAN_MOTION"} | {"SEMI_MAJOR_AXIS": "6797"})


def test_constants_may_be_said_in_lower_case_and_units_given():
    lines = kvn_text(ISS).replace("TEME", "teme").replace("SGP4", "sgp/sgp4")
    lines = lines.replace("51.6398", "51.6398 [DEG]").replace("15.49480284", "15.49480284[rev/day]")
    assert read(lines).element_sets == read(kvn_text(ISS)).element_sets
    wrong = read(kvn_text(ISS).replace("51.6398", "0.9012 [rad]"))
    assert wrong.problems[0].reason == "its unit is 'rad' and must be deg"
    xml = xml_text(ISS).replace("<INCLINATION>", '<INCLINATION units="deg">')
    assert read(xml).element_sets == read(xml_text(ISS)).element_sets
    wrong = read(xml_text(ISS).replace("<INCLINATION>", '<INCLINATION units="rad">'))
    assert wrong.problems[0].reason == "its unit is 'rad' and must be deg"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2020-064T10:34:41.4264", "2020-03-04T10:34:41.426400Z"),
        ("2020-065T16:00:00", "2020-03-05T16:00:00.000000Z"),
        ("2002-204T15:56:23Z", "2002-07-23T15:56:23.000000Z"),
        ("2026-09-20T12:42:37.1", "2026-09-20T12:42:37.100000Z"),
        ("2026-09-20T12:42:37.0000005", "2026-09-20T12:42:37.000000Z"),
        ("2026-09-20T12:42:37.0000015", "2026-09-20T12:42:37.000002Z"),
        ("2026-09-20T12:42:37.00000050001", "2026-09-20T12:42:37.000001Z"),
        ("2026-09-20T23:59:59.9999999", "2026-09-21T00:00:00.000000Z"),
        ("2016-12-31T23:59:60", "2017-01-01T00:00:00.000000Z"),
        ("2015-181T23:59:60.5Z", "2015-07-01T00:00:00.500000Z"),
    ],
)
def test_every_ccsds_instant_is_read(text, instant):
    assert format_epoch(parse_epoch(text)) == instant


def test_the_leap_seconds_are_those_of_erfa():
    import erfa

    leaps = erfa.leap_seconds.get()
    days = {(int(y), int(m)) for y, m, _ in leaps if y > 1972 or (y == 1972 and m == 7)}
    accepted = set()
    for year in range(1970, 2030):
        for month, day, following in [(6, 30, (year, 7)), (12, 31, (year + 1, 1))]:
            try:
                parse_epoch(f"{year}-{month:02d}-{day:02d}T23:59:60")
            except BadField:
                continue
            accepted.add(following)
    assert accepted == days


@pytest.mark.parametrize(
    "text", ["", "26263.5", "2026-9-20T12:42:37", "20260920T124237", "2026-09-20T12:42:37+00:00"]
)
def test_other_instants_are_refused(text):
    with pytest.raises(BadField, match="is no UTC instant"):
        parse_epoch(text)


@settings(deadline=None, max_examples=80)
@given(st.text(max_size=12))
def test_a_catalogue_number_is_an_integer_or_refused(text):
    try:
        number = parse_catalog_number(text)
    except BadField:
        return
    assert text.isascii()
    assert 0 <= number <= 999_999_999
    assert number == int(text)


def test_a_message_without_a_number_is_object_0_and_none_hides_another():
    unnumbered = {k: v for k, v in ISS.items() if k != "NORAD_CAT_ID"}
    text = kvn_text(unnumbered) + kvn_text(unnumbered | {"OBJECT_NAME": "OTHER"})
    assert [(e.catalog_number, e.name) for e in read(text).element_sets] == [(0, "ISS (ZARYA)"), (0, "OTHER")]


def test_duplicates_across_the_file_keep_the_newest():
    newer = ISS | {"EPOCH": "2024-09-23T00:00:00"}
    reading = read(csv_text(newer, NOMINAL, ISS))
    assert [format_epoch(e.epoch_us)[:10] for e in reading.element_sets] == ["2024-09-23", "2024-09-22"]
    assert reading.notes == (
        "25544 stands 2 times (lines 2, 4): the newest epoch is used, 2024-09-23T00:00:00.000000Z (line 2)",
    )


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in read(text).problems]


def test_broken_csv_is_told():
    text = csv_text(NOMINAL, ISS, ANALYST)
    assert problems_of(text.replace(",51.6398", "", 1)) == [
        "line 2, row: it has 16 cells under 17 columns: it was cut or lost some"
    ]
    last = csv_text(NOMINAL)
    begin = last.index("799501621")
    for length in range(begin + 1, begin + 10):
        assert problems_of(last[:length])[0].startswith("line 2, row: it has ")
    assert problems_of(last[: length + 1])[0].startswith("line 2, record 799501621, row: it has ")
    assert problems_of(text.replace("ISS (ZARYA)", '"ISS'))[0].startswith(
        "line 3, row: its quotes do not match"
    )
    assert problems_of(text.replace("MEAN_MOTION,", "", 1)) == [
        "line 1, header: the column MEAN_MOTION must be there"
    ]
    assert problems_of(text.replace("MEAN_MOTION_DDOT", "MEAN_MOTION")) == [
        "line 1, header: the column MEAN_MOTION stands there more than once"
    ]
    assert read(text.rstrip()).notes == (
        "the last line has no line end: if the file was cut there, its last value is short",
    )


def test_broken_json_is_told():
    text = json_text(NOMINAL, ISS, ANALYST)
    assert problems_of(text[:-1]) == ["line 1, array: it is not closed with ]: the file was cut"]
    assert problems_of(text[:-30])[0].startswith("line 1, record: it is no JSON (")
    assert len(read(text[:-30]).element_sets) == 2
    assert problems_of(text + "x") == ["line 1, end: more text follows the JSON value"]
    assert problems_of(text[:-1] + ",]") == [
        "line 1, array: a comma and no record follow this one: a record is lost"
    ]
    assert problems_of(text.replace("}, {", "} {", 1)) == ["line 1, array: no comma follows this record"]
    assert problems_of("[1," + text[1:]) == ["line 1, record: it is no JSON object of CCSDS keywords"]
    assert problems_of(text.replace('"INCLINATION": 51.6398', '"INCLINATION": [51.6398]', 1)) == [
        "line 1, INCLINATION: it is neither text nor a number"
    ]
    assert problems_of(text.replace('"INCLINATION"', '"ECCENTRICITY"', 1)) == [
        "line 1, ECCENTRICITY: it stands there twice"
    ]
    assert problems_of(text.replace("51.6398", "NaN", 1)) == [
        "line 1, record 799501621, INCLINATION: 'NaN' is no finite decimal number"
    ]
    assert problems_of(text.replace("51.6398", "true", 1)) == [
        "line 1, INCLINATION: it is neither text nor a number"
    ]
    damaged = read(text.replace('"MEAN_ANOMALY": 84.7888', '"MEAN_ANOMALY" 84.7888', 1))
    assert [e.catalog_number for e in damaged.element_sets] == [25544, 270449]
    assert str(damaged.problems[0]) == "line 1, record: it is no JSON (Expecting ':' delimiter) or was cut"


def test_one_json_object_is_a_file_too():
    assert len(read(json_text(ISS)[1:-1]).element_sets) == 1
    assert problems_of(json_text(ISS)[1:-1] + " x") == ["line 1, end: more text follows the JSON value"]
    assert problems_of("[[1]," + json_text(ISS)[1:]) == [
        "line 1, record: it is no JSON object of CCSDS keywords"
    ]


def test_what_sgp4_does_not_need_is_passed_over():
    expected = read(json_text(ISS)).element_sets
    assert read(json_text(ISS).replace("[{", '[{"RMS":[1],"RMS":null,', 1)).element_sets == expected
    more = "COMMENT\r\nUSER_DEFINED_A = 1\r\nUSER_DEFINED_A = 2\r\nCOMMENT = no keyword\r\n"
    assert read(kvn_text(ISS).replace("OBJECT_ID", more + "OBJECT_ID", 1)).element_sets == expected
    outside = (
        xml_text(ISS)
        .replace("<omm", "<EPOCH>1999</EPOCH><omm", 1)
        .replace("</ndm>", "<BSTAR>x</BSTAR></ndm>")
    )
    assert read(outside).element_sets == expected


def test_counters_that_are_left_out_have_the_defaults_of_the_record():
    named = ("EPHEMERIS_TYPE", "CLASSIFICATION_TYPE", "ELEMENT_SET_NO", "REV_AT_EPOCH", "MEAN_MOTION_DOT")
    bare = parse_omm({k: v for k, v in ISS.items() if k not in named})
    assert (bare.ephemeris_type, bare.classification_type) == (0, "U")
    assert (bare.element_set_no, bare.rev_at_epoch, bare.mean_motion_dot_rev_per_day2) == (999, 0, 0.0)


def test_brackets_in_a_name_are_no_unit():
    (element_set,) = read(kvn_text(ISS | {"OBJECT_NAME": "SAT [+]"})).element_sets
    assert element_set.name == "SAT [+]"


def test_markup_within_a_value_is_no_value():
    nested = xml_text(ISS).replace("<EPOCH>2024", "<EPOCH>2024<b>1</b>", 1)
    assert problems_of(nested)[0].endswith("EPOCH: it is missing, and SGP4 needs it")


@pytest.mark.parametrize("opened", ["[", '{"EPOCH":', '[{"EPOCH":[', '{"EPOCH" :{"a":'])
def test_json_nested_without_end_is_refused_soon(opened):
    reading = read('{"EPOCH":' + opened * 100_000)
    assert reading.element_sets == ()
    assert len(reading.problems) == 1


def test_broken_kvn_is_told():
    text = kvn_text(NOMINAL, ISS, ANALYST)
    number = text.splitlines().index("OBJECT_NAME         = ISS (ZARYA)") + 1
    assert problems_of(text.replace("OBJECT_NAME         = ISS (ZARYA)", "OBJECT_NAME ISS")) == [
        f"line {number}, line: 'OBJECT_NAME ISS' is not of the form KEYWORD = value"
    ]
    assert problems_of(text.replace("OBJECT_NAME         = ISS (ZARYA)", "EPOCH = 2024-01-01T00:00:00"))[
        0
    ] == (f"line {number + 2}, EPOCH: it stands in this message twice (a message begins with CCSDS_OMM_VERS)")
    assert problems_of(text.replace("OBJECT_NAME         = ISS", "object_name = ISS"))[0].startswith(
        f"line {number}, line: 'object_name = ISS (ZARYA)' is not of the form KEYWORD = value"
    )
    first = kvn_text(NOMINAL, end="\n")
    for length in range(first.index("799501621"), first.index("799501621") + 10):
        assert problems_of(first[:length]) == ["line 1, BSTAR: it is missing, and SGP4 needs it"]
    assert problems_of(first[: length + 1]) == [
        "line 1, record 799501621, BSTAR: it is missing, and SGP4 needs it"
    ]
    cut = text[: text.index("CLASSIFICATION_TYPE = U", text.index("ISS"))]
    assert problems_of(cut)[0].endswith("BSTAR: it is missing, and SGP4 needs it")


def test_broken_xml_is_told_and_the_other_messages_load():
    text = xml_text(NOMINAL, ISS, ANALYST)
    damaged = read(text.replace("<OBJECT_NAME>ISS", "<OBJECT_NAME>I&SS"))
    assert [e.catalog_number for e in damaged.element_sets] == [799501621, 270449]
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "ISS" in line)
    (problem,) = damaged.problems
    assert str(problem) == (
        f"line {number}, XML: it is not well-formed (not well-formed (invalid token)): it was damaged or cut"
    )
    cut = read(text.removesuffix("</ndm>\n"))
    assert len(cut.element_sets) == 3
    assert [p.field for p in cut.problems] == ["XML"]
    assert problems_of(text.replace("</EPOCH>", "</EPOCH><EPOCH>2024-01-01T00:00:00</EPOCH>", 1))[0].endswith(
        "EPOCH: it stands in this message twice"
    )


def test_no_entity_is_expanded_and_nothing_external_is_fetched():
    laughs = '<!DOCTYPE ndm [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 1000 + '">]>'
    external = '<!DOCTYPE ndm [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    for prolog, name in [
        (laughs, "&b;"),
        (external, "&a;"),
        ("<!DOCTYPE ndm SYSTEM 'http://127.0.0.1:1/x'>", ""),
    ]:
        text = (
            xml_text(ISS | {"OBJECT_NAME": "X"})
            .replace("<ndm", prolog + "<ndm", 1)
            .replace(">X<", f">{name}<")
        )
        tracemalloc.start()
        reading = read(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000
        assert reading.element_sets == ()
        assert [str(p) for p in reading.problems] == [
            "line 2, document type: a <!DOCTYPE> stands there; it could define entities, and no OMM has one: "
            "remove it"
        ]


def test_undefined_entities_are_told():
    assert "undefined entity" in problems_of(xml_text(ISS | {"OBJECT_NAME": "X"}).replace(">X<", ">&b;<"))[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", 'the data holds no element sets in any known format. It says: "[]"'),
        (
            '{"error":"You must be logged in to complete this action"}',
            "the data holds no element sets in any known format. It says: "
            '"{"error":"You must be logged in to complete this action"}"',
        ),
        (",".join(ISS) + "\r\n", "the data is CSV and holds no record: no element sets are in it"),
        (
            ";".join(ISS) + "\n" + ";".join(ISS.values()),
            "the data has columns that are not separated by commas: save it as CSV with commas",
        ),
        (
            "\t".join(ISS) + "\n" + "\t".join(ISS.values()),
            "the data has columns that are not separated by commas: save it as CSV with commas",
        ),
        ("<ndm></ndm>", "the data is XML and holds no record: no element sets are in it"),
        (
            "<rss>EPOCH</rss>",
            "the data is a web page and holds no element sets: look at what the server says there",
        ),
    ],
)
def test_a_file_without_records_is_refused(text, sentence):
    with pytest.raises(GpError) as error:
        read(text)
    assert str(error.value) == sentence


@pytest.mark.parametrize("form", TEXTS)
def test_every_cut_is_noticed(form):
    """Cut anywhere: only whole records load without a word (of KVN, whole as far as SGP4 needs them)."""

    def sgp4_needs(element_set):
        return dataclasses.replace(
            element_set, mean_motion_dot_rev_per_day2=0, mean_motion_ddot_rev_per_day3=0
        )

    text = TEXTS[form](NOMINAL, ISS)
    whole = set(map(sgp4_needs, read(text).element_sets))
    for length in range(len(text) // 3, len(text.rstrip())):
        try:
            reading = read(text[:length])
        except GpError:
            continue
        if not reading.notes:
            assert set(map(sgp4_needs, reading.element_sets)) <= whole
        assert reading.problems or reading.notes or text[:length].endswith(("\r", "\n"))
