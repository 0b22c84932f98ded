from dataclasses import replace

import numpy as np
import pytest
from orbit_samples import DAY_MS, GEO, INTEGRAL, ISS, MOLNIYA, SAMPLES, SEPTEMBER_23
from sgp4.api import Satrec

from orbittrace_data.builders.propagation import (
    acceleration,
    acceleration_and_jerk,
    describe_error,
    grid,
    satrec,
    states,
)

WEEK_S = np.linspace(0.0, 7 * 86_400.0, 500)


@pytest.mark.parametrize("elements", SAMPLES.values(), ids=SAMPLES)
def test_fields_give_the_positions_of_the_lines(elements):
    ours = states(satrec(elements), SEPTEMBER_23, WEEK_S)[1]
    theirs = states(Satrec.twoline2rv(elements.line1, elements.line2), SEPTEMBER_23, WEEK_S)[1]
    assert (
        np.abs(ours - theirs).max() < 1e-6
    )  # 1 mm, at the perigee of a very eccentric orbit; else a tenth of it


def test_numbers_beyond_the_tle_change_nothing():
    large = states(satrec(replace(ISS, catalog_number=999_999_999)), SEPTEMBER_23, WEEK_S)[1]
    assert np.array_equal(large, states(satrec(ISS), SEPTEMBER_23, WEEK_S)[1])


def test_time_is_split_without_loss():
    at_noon = states(satrec(ISS), SEPTEMBER_23 + DAY_MS // 2, np.zeros(1))[1]
    from_midnight = states(satrec(ISS), SEPTEMBER_23, np.array([43_200.0]))[1]
    assert np.abs(at_noon - from_midnight).max() < 1e-9


def test_errors_are_read():
    # A drag so strong that the orbit has long decayed.
    error, _, _ = states(satrec(replace(ISS, bstar_per_earth_radius=1.0)), SEPTEMBER_23, WEEK_S)
    assert error[-1] != 0
    assert "SGP4" in describe_error(int(error[-1]))


def test_implausible_positions_are_errors():
    fast = replace(ISS, mean_motion_rev_per_day=17.5)  # inside the Earth
    error, _, _ = states(satrec(fast), SEPTEMBER_23, WEEK_S)
    assert error.any()
    assert "km from the Earth" in describe_error(255)


@pytest.mark.parametrize("elements", [ISS, GEO, MOLNIYA, INTEGRAL], ids=lambda e: e.name)
def test_grid_covers_the_span_in_order(elements):
    t_s = grid(satrec(elements), SEPTEMBER_23, 86_400.5)
    assert t_s[0] == 0.0
    assert t_s[-1] == 86_400.5
    assert np.all(np.diff(t_s) > 0)


def test_grid_is_dense_at_perigee():
    model = satrec(MOLNIYA)
    t_s = grid(model, SEPTEMBER_23, 86_400.0)
    radius = np.linalg.norm(states(model, SEPTEMBER_23, t_s)[1], axis=1)
    step = np.diff(t_s)
    assert step[radius[:-1] < 12_000].max() < step[radius[:-1] > 35_000].min() / 2


@pytest.mark.parametrize(("elements", "limit"), [(ISS, 5e-6), (GEO, 1e-7), (MOLNIYA, 5e-6)])
def test_force_is_the_second_derivative_of_positions(elements, limit):
    model = satrec(elements)
    h = 4.0
    before, now, after = (states(model, SEPTEMBER_23, WEEK_S + d) for d in (-h, 0.0, h))
    second = (before[1] - 2 * now[1] + after[1]) / h**2
    a, jerk = acceleration_and_jerk(*now[1].T, *now[2].T)
    assert np.abs(np.stack(a, axis=1) - second).max() < limit  # [km/s2]
    a_before, a_after = (acceleration(*state[1].T) for state in (before, after))
    third = (np.stack(a_after) - np.stack(a_before)) / (2 * h)
    assert np.abs(np.stack(jerk) - third).max() < 1e-2 * np.abs(third).max()
