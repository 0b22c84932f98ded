import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orbit_samples import APRIL_8, DAY_MS, GEO, ISS, MOLNIYA, SEPTEMBER_23

from orbittrace_data.builders.propagation import acceleration_and_jerk, satrec, states
from orbittrace_data.builders.shadow import (
    Depth,
    ShadowModel,
    ShadowModelError,
    depths,
    distance_rates,
    hidden_fraction,
    obscuration,
    occluders,
    separation_excess,
    signed_distances,
)

ONE = np.ones(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"earth": "flat"},
        {"cone": "pyramid"},
        {"earth_radius_km": 6.378},
        {"atmosphere_km": -1.0},
        {"min_sunlight": 0.0},
        {"min_sunlight": 1.5},
    ],
)
def test_refused_models(wrong):
    with pytest.raises(ShadowModelError, match=next(iter(wrong))):
        ShadowModel(**wrong)


def test_a_gap_has_its_own_depth_only_where_it_is_none_of_the_others():
    assert [d.name for d in depths(ShadowModel())] == ["penumbra", "half", "umbra"]
    assert depths(ShadowModel(min_sunlight=0.9))[-1] == Depth("gap", pytest.approx(0.1))


@given(st.floats(0.2, 300), st.floats(0, 1))
@settings(deadline=None)
def test_hidden_fraction_falls_as_discs_part(w, share):
    c = np.abs(1 - w) + share * (1 + w - np.abs(1 - w))
    hidden = hidden_fraction(np.array([0.0, c, c + 1e-3, 1 + w]), ONE, w * ONE)
    assert np.all(np.diff(hidden) <= 1e-12)
    assert hidden[0] == pytest.approx(min(1.0, w * w))
    assert hidden[-1] == 0.0


def test_hidden_fraction_of_equal_discs_half_apart():
    # Two unit circles one radius apart: 2 pi / 3 - sqrt(3) / 2 of area (any geometry textbook).
    expected = (2 * np.pi / 3 - np.sqrt(3) / 2) / np.pi
    assert hidden_fraction(ONE, ONE, ONE)[0] == pytest.approx(expected, abs=1e-15)


@given(st.floats(0.3, 400), st.floats(0.001, 0.999))
@settings(deadline=None)
def test_separation_excess_solves_the_overlap(w, hidden):
    excess = separation_excess(np.array([w]), hidden)[0]
    if min(1.0, w * w) <= hidden:
        assert np.isnan(excess)
        return
    assert hidden_fraction(np.array([w + excess]), ONE, w * ONE)[0] == pytest.approx(hidden, abs=2e-9)


def motion(occluder, model, start_ms, t_s):
    _, r, v = states(model, start_ms, t_s)
    a, jerk = acceleration_and_jerk(*r.T, *v.T)
    return occluder.motion(start_ms, t_s, tuple(r.T), tuple(v.T), a, jerk)


@pytest.mark.parametrize("elements", [ISS, GEO, MOLNIYA], ids=lambda e: e.name)
@pytest.mark.parametrize("body", [0, 1], ids=["earth", "moon"])
def test_rates_are_derivatives(elements, body):
    occluder = occluders(ShadowModel(min_sunlight=0.7), APRIL_8, DAY_MS)[body]
    wanted = depths(ShadowModel(min_sunlight=0.7))
    model = satrec(elements)
    t_s = np.linspace(60_000, 70_000, 301)
    h = 0.5
    x, q, sun = motion(occluder, model, APRIL_8, t_s)
    x_before, q_before, sun_before = motion(occluder, model, APRIL_8, t_s - h)
    x_after, q_after, sun_after = motion(occluder, model, APRIL_8, t_s + h)
    speed = np.sqrt((states(model, APRIL_8, t_s)[2] ** 2).sum(axis=1))
    for i in range(1, 3):
        scale = np.abs(x[i]).max() + 1e-6
        assert np.abs((x_after[i - 1] - x_before[i - 1]) / (2 * h) - x[i]).max() < 2e-3 * scale
        # SGP4's own velocity is up to 1e-5 from the derivative of its position.
        scale = np.abs(q[i]).max() + 1e-2 * np.sqrt(q[0].max()) * speed.max()
        assert np.abs((q_after[i - 1] - q_before[i - 1]) / (2 * h) - q[i]).max() < 2e-3 * scale
    behind = (x[0] > 500) & (q[0] - x[0] ** 2 > 500**2)
    if not behind.any():
        return
    for i in range(len(wanted)):
        which = np.full(len(t_s), i)
        g, g1, g2 = distance_rates(occluder, wanted, which, x[:3], q[:3], sun)
        before = distance_rates(occluder, wanted, which, x_before[:3], q_before[:3], sun_before)
        after = distance_rates(occluder, wanted, which, x_after[:3], q_after[:3], sun_after)
        slope = (after[0] - before[0]) / (2 * h)
        assert np.abs(slope - g1)[behind].max() < 2e-4 * speed.max()
        bend = (after[1] - before[1]) / (2 * h)
        assert np.abs(bend - g2)[behind].max() < 2e-2 * np.abs(bend[behind]).max() + 1e-6
        cheap = signed_distances(occluder, wanted, x[0], q[0], sun)[i]
        close = behind & (np.abs(g) < 500)
        assert np.all(np.abs(cheap - g)[close] < 0.5)


@pytest.mark.parametrize("earth", ["oblate", "sphere"])
def test_places_alone_have_the_bits_of_those_with_derivatives(earth):
    t_s = np.linspace(0.0, 86_400.0, 1_001)
    for occluder in occluders(ShadowModel(earth=earth), APRIL_8, DAY_MS):
        x, q, sun = motion(occluder, satrec(ISS), APRIL_8, t_s)
        _, r, _ = states(satrec(ISS), APRIL_8, t_s)
        for alone, beside in zip(occluder.place(APRIL_8, t_s, tuple(r.T)), (x[0], q[0], sun), strict=True):
            assert np.array_equal(alone, beside)


def test_boundaries_are_where_the_disc_is_covered_so_far():
    occluder = occluders(ShadowModel(), SEPTEMBER_23, DAY_MS)[0]
    t_s = np.arange(0.0, 86_400.0, 7.0)
    x, q, sun = motion(occluder, satrec(ISS), SEPTEMBER_23, t_s)
    hidden = obscuration(occluder, x[0], q[0], sun)
    penumbra, half, umbra = signed_distances(occluder, depths(ShadowModel()), x[0], q[0], sun)
    assert np.array_equal(hidden > 0, penumbra < 0)
    assert np.array_equal(hidden == 1, umbra < 0)
    assert np.all((hidden > 0.5) == (half < 0))
    edge = np.abs(half) < 100
    assert np.all((penumbra < half)[edge])
    assert np.all((half < umbra)[edge])


def test_no_shadow_at_noon():
    occluder = occluders(ShadowModel(), SEPTEMBER_23, DAY_MS)[0]
    sun = np.array([1.5e8])
    for radius in (6_600.0, 42_000.0, 400_000.0):
        for distance in signed_distances(
            occluder, depths(ShadowModel()), -radius * ONE, radius**2 * ONE, sun
        ):
            assert distance[0] > 0


def test_a_cylinder_has_one_boundary():
    occluder = occluders(ShadowModel(cone="cylinder"), SEPTEMBER_23, DAY_MS)[0]
    values = signed_distances(occluder, depths(ShadowModel()), 7_000 * ONE, 9_000.0**2 * ONE, 1.5e8 * ONE)
    assert values[0] == values[1] == values[2] == pytest.approx(np.sqrt(9_000**2 - 7_000**2) - 6_378.137)
