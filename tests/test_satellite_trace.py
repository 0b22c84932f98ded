from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orbittrace_data import load_trace
from orbittrace_data.builders.contacts import SpanError
from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.satellite_trace import (
    PropagationError,
    next_day_ms,
    orbit_class_of,
    regime_of,
    span_of_days,
    trace_from_elements,
    unix_ms,
)
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.errors import InputError

ELEMENTS = {e.catalog_number: e for e in read_snapshot("2024-09-22").element_sets}


@pytest.mark.parametrize(
    ("catalog_number", "regime", "orbit_class"),
    [
        (25544, "leo", "inclined"),
        (20580, "leo", "low-inclination"),
        (49954, "leo", "equatorial"),
        (39472, "leo", "retrograde"),
        (41917, "leo", "polar"),
        (36508, "leo", "polar"),  # CryoSat-2 at 92 deg is polar, not sun-synchronous
        (49260, "leo", "sun-synchronous"),
        (39634, "leo", "dawn-dusk"),
        (39189, "meo", "equatorial"),
        (48859, "meo", "inclined"),
        (41866, "geo", "geostationary"),
        (42965, "geo", "inclined-geosynchronous"),
    ],
)
def test_known_satellites_have_their_known_orbits(catalog_number, regime, orbit_class):
    elements = ELEMENTS[catalog_number]
    assert (regime_of(elements), orbit_class_of(elements)) == (regime, orbit_class)


def test_other_orbits_are_neither_of_the_three():
    gps = ELEMENTS[48859]
    assert regime_of(replace(gps, eccentricity=0.7)) == "heo"  # Molniya
    assert regime_of(replace(ELEMENTS[25544], mean_motion_rev_per_day=9.0, eccentricity=0.2)) == "other"


def test_the_iss_has_the_orbit_that_its_mean_motion_says():
    """Kepler's third law by hand: 15.4948 revolutions a day are 92.93 min and a mean altitude near 419 km."""
    orbit = load_trace("leo-25544").orbit
    assert orbit is not None
    assert orbit.period_s / 60 == pytest.approx(92.934, abs=0.001)
    assert (orbit.perigee_km + orbit.apogee_km) / 2 == pytest.approx(419, abs=1)
    assert orbit.object_id == "1998-067A"
    assert orbit.epoch == datetime(2024, 9, 22, 9, 33, 6, 129_000, UTC)


def test_one_satellite_alone_gives_the_trace_of_the_release():
    released = load_trace("leo-25544")
    alone = trace_from_elements(ELEMENTS[25544], released.start, days=14)
    assert alone == released


def test_the_default_start_is_the_day_after_the_epoch():
    trace = trace_from_elements(ELEMENTS[25544], days=0.5)
    assert trace.start == datetime(2024, 9, 23, tzinfo=UTC)
    assert trace.span_ms == 43_200_000


def test_the_next_day_of_midnight_is_itself():
    day_us = 86_400_000_000
    assert next_day_ms(5 * day_us) == 5 * 86_400_000
    assert next_day_ms(5 * day_us + 1) == 6 * 86_400_000


def test_a_satellite_that_decays_says_when_and_what_to_do():
    falling = replace(ELEMENTS[47506], bstar_per_earth_radius=0.9)
    with pytest.raises(
        PropagationError, match=r"satellite 47506 \(ICEYE-X9\) is known for .* of 14 days only"
    ):
        trace_from_elements(falling, days=14)


@pytest.mark.parametrize("days", [0, -1, float("inf"), 400])
def test_a_span_that_cannot_be_is_refused(days):
    with pytest.raises(InputError, match="days must be more than 0 and at most 366"):
        span_of_days(days)


@pytest.mark.parametrize(
    ("start", "days"),
    [
        ("0001-01-01T00:00:00+14:00", 1),
        ("1956-12-31T23:59:59.999Z", 1),
        ("2099-12-30T00:00:00.001Z", 1),
        ("2099-01-01T00:00:00Z", 366),
        ("2100-01-01T00:00:00Z", 1),
        ("9999-12-31T23:59:59-14:00", 366),
    ],
)
def test_a_span_lies_within_the_dates_for_which_the_sun_is_known(start, days):
    instant = datetime.fromisoformat(start)
    with pytest.raises(SpanError, match="do not lie within 1957-01-01 and 2099-12-31"):
        trace_from_elements(ELEMENTS[41866], instant, days)
    with pytest.raises(SpanError, match="do not lie within 1957-01-01 and 2099-12-31"):
        make_recipe(catalog=[41866], start_ms=unix_ms(instant), days=days)


@pytest.mark.parametrize("start", ["1957-01-01T00:00:00Z", "2099-12-30T00:00:00Z"])
def test_the_first_and_the_last_day_give_no_warning(start):
    instant = datetime.fromisoformat(start)
    assert trace_from_elements(ELEMENTS[41866], instant, 1).start == instant  # warnings are errors
    assert make_recipe(catalog=[41866], start_ms=unix_ms(instant), days=1)[0].span_ms == 86_400_000


def test_an_instant_needs_a_zone():
    with pytest.raises(InputError, match="has no time zone"):
        unix_ms(datetime(2024, 9, 23))
