import warnings
from datetime import UTC, datetime

import astropy.units as u
import erfa
import numpy as np
import pytest
from astropy.coordinates import TEME, get_sun
from astropy.time import Time
from astropy.utils import iers
from orbit_samples import SEPTEMBER_23

from orbittrace_data.builders.sun_moon import (
    MOON_STEP_S,
    SUN_STEP_S,
    gcrs_to_teme,
    knots,
    moon_teme,
    sun_teme,
    table,
    terrestrial_time,
)

ARCSEC = np.pi / 180 / 3600
SPAN_MS = 30 * 86_400_000


def unix_s(*dates):
    return np.array([int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()) for date in dates])


def separation(a, b):
    return np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1))


def test_the_sun_is_astropys():
    seconds = unix_s("2024-03-20", "2024-09-23", "2025-01-01T12:00", "2025-06-21", "2026-02-01")
    with iers.conf.set_temp("auto_download", False), iers.conf.set_temp("auto_max_age", None):
        t = Time(seconds, format="unix")
        theirs = get_sun(t).transform_to(TEME(obstime=t)).cartesian.xyz.to_value(u.km).T
    ours = sun_teme(seconds)
    assert separation(ours, theirs).max() < 0.1 * ARCSEC
    assert np.abs(np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1) - 1).max() < 1e-6


def test_frames_differ_as_precession_says():
    # 24.7 years of general precession in right ascension turn the equinox by 0.32 deg: not a matter of taste.
    tt = terrestrial_time(unix_s("2024-09-23"))
    x_axis = gcrs_to_teme(*tt)[0, 0]
    assert separation(x_axis, np.array([1.0, 0, 0])) == pytest.approx(np.radians(0.34), abs=np.radians(0.03))


def test_rotation_keeps_lengths():
    tt = terrestrial_time(unix_s("2024-09-23", "2035-01-01"))
    matrices = gcrs_to_teme(*tt)
    assert np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max() < 1e-14


def test_terrestrial_time_counts_leap_seconds():
    (whole,), (fraction,) = terrestrial_time(unix_s("2024-09-23"))
    late = (whole - (2_440_587.5 + SEPTEMBER_23 / 86_400_000) + fraction) * 86_400
    assert late == pytest.approx(37 + 32.184, abs=1e-4)


def test_dates_after_the_known_leap_seconds_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(sun_teme(unix_s("2045-01-01"))).all()


def test_the_moon_is_where_it_eclipsed_the_sun():
    # 2024-04-08 18:17:16 UTC: greatest eclipse, gamma 0.3431 Earth radii (Espenak, NASA eclipse web site).
    seconds = unix_s("2024-04-08T18:17:16")
    sun, moon = sun_teme(seconds)[0], moon_teme(seconds)[0]
    axis = (sun - moon) / np.linalg.norm(sun - moon)
    miss = np.linalg.norm(np.cross(moon, axis))
    assert miss / 6_378.137 == pytest.approx(0.3431, abs=0.002)


def test_light_time_of_the_moon():
    # In 1.3 s the Moon moves a little over a kilometre.
    seconds = unix_s("2024-09-23")
    tt = terrestrial_time(seconds)
    geometric = erfa.rxp(gcrs_to_teme(*tt), erfa.moon98(*tt)["p"] * 149_597_870.7)
    assert 1.0 < np.linalg.norm(moon_teme(seconds) - geometric) < 1.6


@pytest.mark.parametrize(
    ("where", "step_s", "limit_km"), [(sun_teme, SUN_STEP_S, 0.05), (moon_teme, MOON_STEP_S, 2e-3)]
)
def test_tables_follow_the_function(where, step_s, limit_km):
    k = knots(SEPTEMBER_23, SPAN_MS, step_s)
    tabulated = table(k, where(k))
    seconds = np.random.default_rng(0).integers(0, SPAN_MS // 1000, 200)
    position, velocity, pull = tabulated.at(SEPTEMBER_23, seconds.astype(float), order=2)
    truth = where(SEPTEMBER_23 // 1000 + seconds)
    assert np.abs(np.stack(position, axis=1) - truth).max() < limit_km
    h = 30
    after, before = where(SEPTEMBER_23 // 1000 + seconds + h), where(SEPTEMBER_23 // 1000 + seconds - h)
    assert np.abs(np.stack(velocity, axis=1) - (after - before) / (2 * h)).max() < 1e-3
    assert np.isfinite(np.stack(pull)).all()


def test_tables_do_not_depend_on_the_start():
    instant_ms = SEPTEMBER_23 + 5 * 86_400_000 + 123
    values = []
    for start_ms in (SEPTEMBER_23, SEPTEMBER_23 + 7_777_777):
        k = knots(start_ms, SPAN_MS, SUN_STEP_S)
        t_s = np.array([(instant_ms - start_ms) / 1000])
        values.append(np.stack(table(k, sun_teme(k)).at(start_ms, t_s)[0]))
    assert np.abs(values[0] - values[1]).max() < 1e-6
