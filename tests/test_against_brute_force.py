"""Every interval of one satellite of each kind against a scan in steps of 1 s and 0.01 s."""

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orbit_samples import (
    APRIL_8,
    DAY_MS,
    GEO,
    GPS,
    INTEGRAL,
    ISS,
    MMS,
    MOLNIYA,
    NOAA_19,
    OCTOBER_2,
    SENTINEL_1A,
    SEPTEMBER_23,
    STARLINK,
)

from orbittrace_data.builders.constants import SGP4_MU_KM3_PER_S2
from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.element_set import ElementSet
from orbittrace_data.builders.propagation import satrec
from orbittrace_data.builders.sun_moon import sun_teme

TOLERANCE_S = 1e-3


def agree(elements, start_ms, span_ms, occluders=("earth", "moon")):
    """Compare all intervals; return how many there are by occluder and depth."""
    shadows = find_shadows([elements], start_ms, span_ms)
    sky = brute_force.Sky(start_ms, span_ms / 1000)
    counts = {}
    for occluder in occluders:
        for depth, (starts_inside, times) in brute_force.contacts(sky, elements, occluder).items():
            rows = (shadows.occluder == occluder) & (shadows.depth == depth)
            ours = np.stack([shadows.start_ms[rows], shadows.stop_ms[rows]], axis=1).ravel()
            free = np.stack([~shadows.cut_start[rows], ~shadows.cut_stop[rows]], axis=1).ravel()
            assert (len(ours) > 0 and ours[0] == 0 and not free[0]) == starts_inside
            assert free.sum() == len(times), (occluder, depth)
            if len(times):
                assert np.abs(ours[free] / 1000 - times).max() < TOLERANCE_S, (occluder, depth)
            counts[occluder, depth] = int(rows.sum())
    return counts


@pytest.mark.parametrize(
    ("elements", "start_ms", "days"),
    [
        (ISS, SEPTEMBER_23, 0.5),
        (NOAA_19, SEPTEMBER_23, 0.5),
        (GPS, SEPTEMBER_23, 1),
        (GEO, SEPTEMBER_23, 1.5),
        (MOLNIYA, SEPTEMBER_23, 1),
        (MMS, SEPTEMBER_23, 1.5),
    ],
    ids=lambda value: value.name if isinstance(value, ElementSet) else None,
)
def test_the_earths_shadow(elements, start_ms, days):
    counts = agree(elements, start_ms, int(days * DAY_MS), ("earth",))
    assert counts["earth", "umbra"] > 0 or elements in (MMS, MOLNIYA)


@pytest.mark.slow
@pytest.mark.parametrize("elements", [SENTINEL_1A, STARLINK, INTEGRAL, GPS, MOLNIYA, GEO])
def test_a_week_of_both_shadows(elements):
    agree(elements, OCTOBER_2 - 6 * DAY_MS, 7 * DAY_MS)


@pytest.mark.parametrize("elements", [ISS, NOAA_19, GEO], ids=lambda e: e.name)
@pytest.mark.parametrize("start_ms", [OCTOBER_2, APRIL_8], ids=["annular", "total"])
def test_the_moons_shadow(elements, start_ms):
    counts = agree(elements, start_ms + 13 * 3_600_000, 11 * 3_600_000, ("moon",))
    assert sum(counts.values()) > 0 or elements is GEO


def test_greatest_obscuration_of_the_moons_penumbrae():
    start_ms = APRIL_8 + 13 * 3_600_000
    orbits = [ISS, NOAA_19, SENTINEL_1A, STARLINK, GPS, GEO]
    shadows = find_shadows(orbits, start_ms, 11 * 3_600_000)
    sky = brute_force.Sky(start_ms, 11 * 3_600.0)
    checked = 0
    for row in np.flatnonzero((shadows.occluder == "moon") & (shadows.depth == "penumbra")).tolist():
        t_s = np.arange(shadows.start_ms[row], shadows.stop_ms[row], 100) / 1000
        model = satrec(orbits[shadows.satellite[row]])
        hidden = 0.5 - brute_force.margins(sky, model, "moon", t_s, ("half",))["half"]
        assert shadows.max_obscuration[row] == pytest.approx(hidden.max(), abs=3e-6)
        checked += 1
    assert checked >= 4


def test_the_moons_umbra_is_thin_and_found():
    # Low orbits that cross the centre line of 2024-04-08 while the umbra, 200 km wide, passes there.
    start_ms, span_ms = APRIL_8 + 17 * 3_600_000, 3 * 3_600_000
    ring = [circular(start_ms, 500.0, 60.0, 300.0, float(anomaly)) for anomaly in range(0, 360, 8)]
    shadows = find_shadows(ring, start_ms, span_ms)
    dark = np.unique(shadows.satellite[(shadows.occluder == "moon") & (shadows.depth == "umbra")])
    assert len(dark) > 0
    sky = brute_force.Sky(start_ms, span_ms / 1000)
    t_s = np.arange(0.0, span_ms / 1000, 2.0)  # the umbra takes a satellite some 20 s to cross
    for i, elements in enumerate(ring):
        inside = brute_force.margins(sky, satrec(elements), "moon", t_s, ("umbra",))["umbra"] < 0
        assert inside.any() == (i in dark)
    for i in dark[:3].tolist():
        agree(ring[i], start_ms, span_ms, ("moon",))


def circular(
    epoch_ms, altitude_km, inclination_deg, node_deg, anomaly_deg, eccentricity=0.0, perigee_deg=0.0
):
    semi_major_km = (6_378.135 + altitude_km) / (1 - eccentricity)
    mean_motion = np.sqrt(SGP4_MU_KM3_PER_S2 / semi_major_km**3) * 86_400 / (2 * np.pi)
    return ElementSet(
        1,
        "made",
        "",
        epoch_ms * 1000,
        round(float(mean_motion), 8),
        eccentricity,
        inclination_deg,
        node_deg % 360,
        perigee_deg,
        anomaly_deg,
    )


def grazing_node_deg(epoch_ms, altitude_km, inclination_deg, miss_deg, southern):
    """Right ascension of the node that puts the shadow's edge ``miss_deg`` from the orbit's plane, or None."""
    sun = sun_teme(np.array([epoch_ms // 1000]))[0]
    sun /= np.linalg.norm(sun)
    beta = np.arcsin(6_378.0 / (6_378.0 + altitude_km)) + np.radians(miss_deg)
    beta = -beta if southern else beta
    inclination = np.radians(inclination_deg)
    # h . s = sin i (sx sin O - sy cos O) + cos i sz
    reach = np.sin(inclination) * np.hypot(sun[0], sun[1])
    sine = (np.sin(beta) - np.cos(inclination) * sun[2]) / reach
    if abs(sine) > 1:
        return None
    return float(np.degrees(np.arcsin(sine) + np.arctan2(sun[1], sun[0])))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([SEPTEMBER_23, SEPTEMBER_23 + 80 * DAY_MS, APRIL_8]),
    st.floats(300, 3_000),
    st.floats(65, 115),
    st.floats(-0.6, 0.6),
    st.booleans(),
    st.floats(0, 359.99),
    st.floats(0, 0.02),
    st.floats(0, 359.99),
)
def test_no_grazing_eclipse_is_missed(
    start_ms, altitude_km, inclination_deg, miss_deg, southern, anomaly_deg, eccentricity, perigee_deg
):
    node_deg = grazing_node_deg(start_ms, altitude_km, inclination_deg, miss_deg, southern)
    if node_deg is None:
        return
    elements = circular(
        start_ms, altitude_km, inclination_deg, node_deg, anomaly_deg, eccentricity, perigee_deg
    )
    span_s = 15_000
    shadows = find_shadows([elements], start_ms, span_s * 1000)
    sky = brute_force.Sky(start_ms, span_s)
    t_s = np.arange(0.0, span_s)
    margin = brute_force.margins(sky, satrec(elements), "earth", t_s, ("penumbra", "umbra"))
    for depth, distance in margin.items():
        rows = (shadows.occluder == "earth") & (shadows.depth == depth)
        ours = np.zeros(span_s, bool)
        for start, stop in zip(shadows.start_ms[rows], shadows.stop_ms[rows], strict=True):
            ours[-(-start // 1000) : -(-stop // 1000)] = True
        differs = ours != (distance < 0)
        assert np.all(np.abs(distance[differs]) < 2e-8), (depth, t_s[differs])  # within 0.15 m of the edge
