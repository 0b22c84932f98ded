import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.trainers.statistics import (
    StatisticsError,
    estimate,
    holm,
    noise_floor,
    p_against,
    ratio,
    region_test,
    t_probability,
    t_quantile,
)

# Two-sided 5% and 1% points: Fisher and Yates, Statistical Tables (1963), table III, as in NIST/SEMATECH
# e-Handbook of Statistical Methods, section 1.3.6.7.2.
POINTS = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    9: (2.262, 3.250),
    10: (2.228, 3.169),
    30: (2.042, 2.750),
    100: (1.984, 2.626),
}

reals = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))
samples = st.lists(reals, min_size=2, max_size=12)
bounded = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize("freedom", POINTS)
def test_quantiles_of_the_printed_table(freedom):
    five, one = POINTS[freedom]
    assert t_quantile(freedom, 0.95) == pytest.approx(five, abs=5.1e-4)
    assert t_quantile(freedom, 0.99) == pytest.approx(one, abs=5.1e-4)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 12])
def test_probability_is_the_integral_of_the_density(freedom):
    def density(x):
        scale = math.gamma((freedom + 1) / 2) / math.sqrt(freedom * math.pi) / math.gamma(freedom / 2)
        return scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)

    for t in (0.1, 0.9, 2.3, 5.0):
        x = np.linspace(-t, t, 4001)
        y = density(x)
        simpson = (x[1] - x[0]) / 3 * (y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum())
        assert t_probability(t, freedom) == pytest.approx(1 - simpson, abs=1e-10)


def test_paired_t_of_students_own_sleep_data():
    # Student (1908), The probable error of a mean, Biometrika 6(1), section IX: additional hours of sleep.
    dextro = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
    laevo = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
    difference = estimate(laevo - dextro)
    assert difference.mean == pytest.approx(1.58)
    assert (difference.low, difference.high) == pytest.approx((0.7001, 2.4599), abs=1e-4)
    assert p_against(laevo - dextro, 0) == pytest.approx(0.002833, abs=1e-6)


@bounded
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_the_closed_bonferroni_test(p):
    """Holm rejects a hypothesis just where Bonferroni rejects every intersection that it is part of."""
    count = len(p)
    for i in range(count):
        worst = 0.0
        others = [k for k in range(count) if k != i]
        for size in range(count):
            for more in itertools.combinations(others, size):
                family = [i, *more]
                worst = max(worst, min(1.0, len(family) * min(p[k] for k in family)))
        assert holm(p)[i] == pytest.approx(worst)


@bounded
@given(samples, reals)
def test_interval_and_test_say_the_same(values, border):
    e = estimate(values)
    if abs(e.low - border) > 1e-6 and abs(e.high - border) > 1e-6:
        assert (p_against(values, border) > 0.05) == (e.low < border < e.high)


@bounded
@given(samples, reals, st.floats(0.01, 100))
def test_region_is_decided_by_the_interval(values, middle, half):
    e = estimate(values)
    inside, p = region_test(values, middle - half, middle + half)
    borders = (middle - half, middle + half)
    if min(abs(x - b) for x in (e.low, e.high) for b in borders) > 1e-6:
        within = borders[0] < e.low and e.high < borders[1]
        outside = e.high < borders[0] or e.low > borders[1]
        assert (inside and p <= 0.05) == within
        assert (not inside and p <= 0.05) == outside


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    covered = sum(abs(e.mean - 3) < e.high - e.mean for e in map(estimate, rng.normal(3, 2, (4000, 5))))
    assert abs(covered / 4000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_fiellers_interval_covers_the_true_ratio():
    rng = np.random.default_rng(2)
    hits = shown = 0
    for _ in range(2000):
        common = rng.normal(0, 0.2, 5)
        r = ratio(0.6 + common + rng.normal(0, 0.1, 5), 2 + common + rng.normal(0, 0.2, 5))
        if r is not None:
            shown += 1
            hits += r.low <= 0.3 <= r.high
    assert shown > 1900
    assert abs(hits / shown - 0.95) < 0.02


def test_fiellers_interval_holds_the_ratios_that_the_test_cannot_rule_out():
    n, d = np.array([0.31, 0.2, 0.27, 0.4]), np.array([1.0, 0.9, 1.1, 1.3])
    r = ratio(n, d)
    for share in np.linspace(r.low - 0.1, r.high + 0.1, 301):
        if min(abs(share - r.low), abs(share - r.high)) > 1e-9:
            assert (p_against(n - share * d, 0) > 0.05) == (r.low < share < r.high)


def test_no_ratio_where_the_denominator_may_be_zero():
    assert ratio([1, 1.2, 0.8], [1, -1, 0.5]) is None
    assert ratio([1.0], [2.0]) is None


def test_wrong_verdicts_are_rare_on_the_border():
    """With the mean exactly on the border, the test says inside or outside in 5% of the samples."""
    rng = np.random.default_rng(3)
    decided = sum(region_test(x, high=1.0)[1] <= 0.05 for x in rng.normal(1, 0.5, (4000, 5)))
    assert abs(decided / 4000 - 0.05) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_noise_floor_pools_within_seeds():
    rng = np.random.default_rng(4)
    seeds = rng.normal(0, 10, (500, 1))
    floor = noise_floor((seeds + rng.normal(0, 0.3, (500, 3))).tolist())
    assert floor.freedom == 1000
    assert floor.sd == pytest.approx(0.3, rel=0.1)
    with pytest.raises(StatisticsError, match="two data orders"):
        noise_floor([[1.0], [2.0]])


def test_equal_differences_are_certain():
    assert estimate([0.0, 0.0, 0.0]).low == 0
    assert region_test([0.0, 0.0], -1, 1) == (True, 0.0)
    assert p_against([2.0, 2.0], 2.0) == 1.0


def test_one_seed_decides_nothing():
    assert estimate([5.0]).low == -math.inf
    assert region_test([5.0], low=0) == (True, 1.0)


@pytest.mark.parametrize("bad", [[], [math.nan, 1.0], [[1.0], [2.0]]])
def test_what_is_no_sample_is_refused(bad):
    with pytest.raises(StatisticsError, match="one finite number a seed"):
        estimate(bad)
