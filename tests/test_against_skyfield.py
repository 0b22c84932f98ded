"""Contacts against skyfield: its own SGP4 call, frames, time scales and ephemeris (JPL's DE421).

Definitions are matched: radii, the stretched Earth, tangents and planar overlap of two discs. So what is
compared are positions, frames, light-time and aberration.
"""

from importlib.resources import files

import brute_force
import numpy as np
import pytest
from orbit_samples import APRIL_8, DAY_MS, GEO, GPS, ISS, NOAA_19, OCTOBER_2, SEPTEMBER_23
from skyfield.api import EarthSatellite, load, load_file

from orbittrace_data.builders.contacts import find_shadows


@pytest.fixture(scope="module")
def ephemeris():
    kernel = load_file(str(files("skyfield_data") / "data" / "de421.bsp"))
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def timescale():
    return load.timescale(builtin=True)


class Skyfield:
    """The margins of `brute_force`, with nothing of this package in them."""

    def __init__(self, elements, start_ms, occluder, ephemeris, timescale):
        self.satellite = EarthSatellite(elements.line1, elements.line2, elements.name, timescale)
        self.start, self.occluder = start_ms, occluder
        self.ephemeris, self.timescale = ephemeris, timescale

    def margin(self, depth, t_s):
        day, in_day_ms = divmod(self.start, DAY_MS)
        t = self.timescale.utc(1970, 1, 1 + day, 0, 0, in_day_ms / 1000 + t_s)
        earth = self.ephemeris["earth"]
        of_date = lambda vector: np.einsum("ijn,jn->ni", t.M, vector)  # noqa: E731 - z to the true pole
        r = of_date(self.satellite.at(t).position.km)
        sun = of_date(earth.at(t).observe(self.ephemeris["sun"]).apparent().position.km)
        if self.occluder == "earth":
            to_sun, to_body, radius = (sun - r) * brute_force.STRETCH, -r * brute_force.STRETCH, 6_378.137
        else:
            moon = of_date(earth.at(t).observe(self.ephemeris["moon"]).apparent().position.km)
            to_sun, to_body, radius = sun - r, moon - r, 1_737.4
        a = np.arcsin(695_700 / np.linalg.norm(to_sun, axis=1))
        b = np.arcsin(radius / np.linalg.norm(to_body, axis=1))
        c = np.arctan2(
            np.linalg.norm(np.cross(to_sun, to_body), axis=1), np.einsum("ni,ni->n", to_sun, to_body)
        )
        if depth == "half":
            return 0.5 - brute_force.covered(a, b, c)
        return c - (b + a if depth == "penumbra" else b - a)

    def contacts(self, depth, near_s):
        """Find the contacts next to given instants by secants."""
        before, after = near_s - 0.5, near_s + 0.5
        f_before, f_after = self.margin(depth, before), self.margin(depth, after)
        for _ in range(5):
            with np.errstate(invalid="ignore", divide="ignore"):
                new = after - f_after * (after - before) / (f_after - f_before)
            new = np.where(np.isfinite(new), new, after)
            before, f_before = after, f_after
            after, f_after = new, self.margin(depth, new)
        return after


def differences(elements, start_ms, days, occluder, ephemeris, timescale):
    shadows = find_shadows([elements], start_ms, int(days * DAY_MS))
    sky = Skyfield(elements, start_ms, occluder, ephemeris, timescale)
    found = []
    for depth in ("penumbra", "half", "umbra"):
        rows = (shadows.occluder == occluder) & (shadows.depth == depth)
        starts = shadows.start_ms[rows & ~shadows.cut_start]
        times = np.concatenate([starts, shadows.stop_ms[rows & ~shadows.cut_stop]]) / 1000
        if len(times):
            found.append(sky.contacts(depth, times) - times)
    return np.concatenate(found) if found else np.empty(0)


@pytest.mark.parametrize(
    ("elements", "days", "limit_s"),
    [(ISS, 0.5, 5e-3), (NOAA_19, 0.5, 5e-3), (GPS, 3, 20e-3), (GEO, 3, 20e-3)],
    ids=["iss", "sun-synchronous", "gps", "geo"],
)
def test_the_earths_contacts(elements, days, limit_s, ephemeris, timescale):
    off = differences(elements, SEPTEMBER_23, days, "earth", ephemeris, timescale)
    assert len(off) >= 12
    assert np.abs(off).max() < limit_s


@pytest.mark.parametrize("start_ms", [APRIL_8, OCTOBER_2], ids=["total", "annular"])
@pytest.mark.parametrize("elements", [ISS, NOAA_19, GEO], ids=["iss", "sun-synchronous", "geo"])
def test_the_moons_contacts(elements, start_ms, ephemeris, timescale):
    # ERFA's moon98 is some 10 km from DE421: seconds, where the Earth's contacts agree within milliseconds.
    off = differences(elements, start_ms, 1, "moon", ephemeris, timescale)
    assert np.all(np.abs(off) < 20.0)
    assert len(off) == 0 or np.median(np.abs(off)) < 3.0
