"""Writing TLEs: what is read is written again, and what a TLE cannot hold is refused."""

import dataclasses

import pytest
from gp_samples import ISS, TLE
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.builders.element_set import BadField
from orbittrace_data.builders.gp import read_element_sets
from orbittrace_data.builders.omm import parse_omm
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.builders.tle import parse_tle
from orbittrace_data.builders.tle_writer import write_tle


def without_lines(element_set):
    return dataclasses.replace(element_set, line1=None, line2=None)


def test_published_lines_are_written_again():
    (iss,) = read_element_sets(TLE.encode()).element_sets
    assert write_tle(iss) == (iss.line1, iss.line2)
    assert write_tle(parse_omm(ISS)) == (iss.line1, iss.line2)


def test_every_record_of_the_frozen_snapshot_goes_around():
    for element_set in read_snapshot("2024-09-22").element_sets:
        again = parse_tle(element_set.name, *write_tle(element_set))
        assert without_lines(again) == without_lines(element_set)


@pytest.mark.parametrize(
    ("keyword", "value", "text"),
    [
        ("BSTAR", "1.2345", " 12345+1"),
        ("BSTAR", "-0.999996", "-10000+1"),
        ("BSTAR", "1e-12", " 00100-9"),
        ("BSTAR", "1e-20", " 00000+0"),
        ("BSTAR", "0.000123455", " 12346-3"),
        ("BSTAR", "-0", " 00000+0"),
    ],
)
def test_the_drag_term_keeps_five_digits(keyword, value, text):
    line1, _ = write_tle(parse_omm(ISS | {keyword: value}))
    assert line1[53:61] == text


@pytest.mark.parametrize(
    "keyword", ["ECCENTRICITY", "INCLINATION", "RA_OF_ASC_NODE", "BSTAR", "MEAN_MOTION_DOT"]
)
def test_minus_zero_is_zero(keyword):
    """Fuzzing found that -0 was written with its sign, one column too wide."""
    made = parse_omm(ISS | {keyword: "-0"})
    assert str(made) == str(parse_omm(ISS | {keyword: "0"}))
    assert without_lines(parse_tle(made.name, *write_tle(made))) == made


@pytest.mark.parametrize(
    ("object_id", "columns"),
    [("", " " * 8), ("98067A", "98067A  "), ("2056-001ABC", "56001ABC"), ("1957-001A", "57001A  ")],
)
def test_designators_fill_their_columns(object_id, columns):
    assert write_tle(parse_omm(ISS | {"OBJECT_ID": object_id}))[0][9:17] == columns


def test_a_slow_mean_motion_is_written_in_its_columns():
    assert write_tle(parse_omm(ISS | {"MEAN_MOTION": "2e-8"}))[1][52:63] == " 0.00000002"


@pytest.mark.parametrize(
    ("keyword", "value", "sentence"),
    [
        (
            "NORAD_CAT_ID",
            "340000",
            "catalogue number: a TLE holds 0 to 339999 and not 340000: write it as OMM",
        ),
        ("NORAD_CAT_ID", "799501621", "catalogue number: a TLE holds 0 to 339999 and not 799501621"),
        ("EPOCH", "2057-01-01T00:00:00", "epoch: a TLE's two-digit year is 1957 to 2056, not 2057"),
        ("EPOCH", "2056-12-31T23:59:59.9999", "epoch: a TLE's two-digit year is 1957 to 2056, not 2057"),
        ("BSTAR", "1e9", "drag term BSTAR: a TLE holds less than 1e9 and not 1000000000.0"),
        ("MEAN_MOTION_DOT", "-1.5", "mean motion dot: a TLE holds less than 1 and not -1.5"),
        (
            "MEAN_MOTION_DOT",
            "1e30",
            "mean motion dot: a TLE holds less than 1 and not 1e+30",
        ),  # found by fuzzing
        ("MEAN_MOTION_DDOT", "-1e300", "mean motion ddot: a TLE holds less than 1e9 and not -1e+300"),
        ("MEAN_MOTION_DOT", "0.999999999", "mean motion dot: a TLE holds less than 1 and not 0.999999999"),
        ("ECCENTRICITY", "0.99999999", "eccentricity: a TLE's seven digits cannot hold 0.99999999"),
        ("REV_AT_EPOCH", "100000", "revolution number: a TLE has 5 digits for it and not 100000"),
        ("ELEMENT_SET_NO", "10000", "element set number: a TLE has 4 digits for it and not 10000"),
        ("OBJECT_ID", "2026-TBD", "international designator: a TLE cannot hold '2026-TBD'"),
    ],
)
def test_what_a_tle_cannot_hold_is_refused(keyword, value, sentence):
    with pytest.raises(BadField) as error:
        write_tle(parse_omm(ISS | {keyword: value}))
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith("write it as OMM")


NUMBER = st.floats(-1e8, 1e8, allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 339_999),
    st.integers(-410_227_200_000_000, 2_745_532_799_999_567),
    st.floats(0.01, 18),
    st.floats(0, 0.9999999),
    st.floats(0, 180),
    st.floats(0, 360),
    NUMBER,
    st.floats(-0.99, 0.99),
)
def test_whatever_is_written_reads_back_at_the_columns_resolution(
    number, epoch_us, motion, eccentricity, inclination, angle, bstar, dot
):
    made = dataclasses.replace(
        parse_omm(ISS),
        catalog_number=number,
        epoch_us=epoch_us,
        mean_motion_rev_per_day=motion,
        eccentricity=eccentricity,
        inclination_deg=inclination,
        mean_anomaly_deg=angle,
        bstar_per_earth_radius=bstar,
        mean_motion_dot_rev_per_day2=dot,
        mean_motion_ddot_rev_per_day3=bstar * 1e-3,
    )
    read = parse_tle(made.name, *write_tle(made))
    assert read.catalog_number == number
    assert abs(read.epoch_us - epoch_us) <= 432
    assert read.mean_motion_rev_per_day == pytest.approx(motion, abs=0.51e-8)
    assert read.eccentricity == pytest.approx(eccentricity, abs=0.51e-7)
    assert read.inclination_deg == pytest.approx(inclination, abs=0.51e-4)
    assert read.mean_anomaly_deg == pytest.approx(angle, abs=0.51e-4)
    assert read.bstar_per_earth_radius == pytest.approx(bstar, rel=0.51e-4, abs=0.51e-14)
    assert read.mean_motion_dot_rev_per_day2 == pytest.approx(dot, abs=0.51e-8)
    assert write_tle(read) == (read.line1, read.line2)
