"""What holds for every reading, whatever the bytes were: used by both fuzzers."""

import dataclasses
import math

import pytest

from orbittrace_data.builders.element_set import BadField, format_epoch
from orbittrace_data.builders.gp import GpError, parse_records, read_element_sets
from orbittrace_data.builders.tle import parse_tle
from orbittrace_data.builders.tle_writer import write_tle

FIRST_US, LAST_US = -410_227_200_000_000, 4_102_444_800_000_000  # 1957 to 2099


def check_reading(data: bytes) -> None:
    """Read the bytes, and assert the laws; the only exception that a reader may raise is GpError."""
    try:
        kind, records, problems = parse_records(data)
        reading = read_element_sets(data)
    except GpError as error:
        said = str(error)
        assert said.isprintable(), said
        assert len(said) < 1000
        return
    assert records or problems
    assert reading.format == kind
    assert reading.problems == tuple(problems)
    assert len({e.catalog_number for e in reading.element_sets if e.catalog_number}) == len(
        [e for e in reading.element_sets if e.catalog_number]
    )
    assert set(reading.element_sets) <= {record for _, record in records}
    last_line = data.count(b"\n") + data.count(b"\r") + 1
    for problem in problems:
        assert 1 <= problem.line <= last_line, problem
        assert str(problem).isprintable(), problem
        assert len(str(problem)) < 400
    if problems:
        with pytest.raises(GpError) as refused:
            read_element_sets(data, strict=True)
        assert str(refused.value).isprintable()
    for line, record in records:
        assert 1 <= line <= last_line
        check_record(record)


def check_record(record) -> None:
    """Assert that a record is a bound orbit about the Earth, and that it can be written where a TLE holds it."""
    assert 0 <= record.catalog_number <= 999_999_999
    assert record.name.isprintable()
    assert record.object_id.isprintable()
    assert FIRST_US <= record.epoch_us <= LAST_US
    format_epoch(record.epoch_us)
    assert 0 < record.mean_motion_rev_per_day <= 18
    assert 0 <= record.eccentricity < 1
    assert 0 <= record.inclination_deg <= 180
    for angle in (record.ra_of_asc_node_deg, record.arg_of_pericenter_deg, record.mean_anomaly_deg):
        assert 0 <= angle <= 360
    for value in (getattr(record, field.name) for field in dataclasses.fields(record)):
        if isinstance(value, float):
            assert math.isfinite(value)
            assert value or math.copysign(1, value) == 1  # no -0: it would have another digest
    if record.line1 is not None:
        assert parse_tle(record.name, record.line1, record.line2) == record
    try:
        lines = write_tle(record)
    except BadField:  # what a TLE cannot hold
        return
    if record.mean_motion_rev_per_day > 1e-8:  # a slower one may be rounded to 0
        assert parse_tle("", *lines).catalog_number == record.catalog_number
