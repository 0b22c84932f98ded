import numpy as np
import pytest
from orbit_samples import DAY_MS, GEO, ISS, SENTINEL_1A, SEPTEMBER_23

from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.error_budget import boundary_shifts_s, error_budget
from orbittrace_data.builders.shadow import ShadowModel


@pytest.fixture(scope="module")
def budget():
    rows = error_budget({"leo": [ISS, SENTINEL_1A], "geo": [GEO]}, SEPTEMBER_23, 2 * DAY_MS)
    return {(row["source"], row["regime"]): (row["median_s"], row["max_s"]) for row in rows}


def find(budget, word, regime):
    (found,) = [value for (source, r), value in budget.items() if word in source and r == regime]
    return found


def test_numerics_are_below_a_millisecond(budget):
    for regime in ("leo", "geo"):
        median_s, max_s = find(budget, "rounding", regime)
        assert 1e-4 < median_s < max_s < 6e-4  # half a millisecond of rounding, and nothing else


def test_choices_move_boundaries_as_geometry_says(budget):
    # A shadow 7.1 km narrower is entered 7.1 km later by a satellite that crosses its edge at some 5 km/s.
    assert 1 < find(budget, "6371 km", "leo")[0] < 5
    assert 15 < find(budget, "60 km", "leo")[0] < 40
    assert 20 < budget["a cylinder instead of a cone, at the penumbra", "geo"][0] < 300
    assert budget["a cylinder instead of a cone", "leo"][1] < 0.3


def test_age_counts_in_every_regime_and_drag_only_where_there_is_some(budget):
    # A kilometre at 7.66 km/s (ISS) and at 3.07 km/s (GEO), less the Earth's shadow's own motion along the track.
    assert 0.12 < find(budget, "each kilometre", "leo")[0] < 0.15
    assert 0.30 < find(budget, "each kilometre", "geo")[0] < 0.36
    assert find(budget, "drag", "leo")[1] > 0
    assert not [source for source, regime in budget if "drag" in source and regime == "geo"]


def test_shifts_have_a_sign():
    base = find_shadows([ISS], SEPTEMBER_23, DAY_MS, ShadowModel(moon=False))
    wider = find_shadows([ISS], SEPTEMBER_23, DAY_MS, ShadowModel(moon=False, atmosphere_km=60.0))
    shifts = boundary_shifts_s(base, wider, "half")
    half = len(shifts) // 2
    assert np.all(shifts[:half] < 0)  # entered earlier
    assert np.all(shifts[half:] > 0)  # left later
    assert np.all(boundary_shifts_s(base, base, "half") == 0)
