import pytest
from hypothesis import assume, given, settings
from replay_runs import runs

from orbittrace_data.advice import AdviceError, advise, daly_s, young_s
from orbittrace_data.forecast import shift_contacts, with_outages
from orbittrace_data.plan import NS_PER_MS, PlanError
from orbittrace_data.replay import replay
from orbittrace_data.trace import DAY_MS, Trace

HOUR = 3_600_000
ORBITS = Trace("orbits", 2 * DAY_MS, [[t, t + HOUR // 2] for t in range(HOUR, 2 * DAY_MS, 2 * HOUR)])


@settings(max_examples=100, deadline=None)
@given(runs())
def test_costs_add_up_to_the_wall_clock_and_saves_are_counted_one_by_one(run):
    forecast, actual, steps, cost, save_every = run
    try:
        plan = replay(forecast, actual, steps, tuple(c * NS_PER_MS for c in cost), save_every, True)
    except PlanError:
        assume(False)
    parts = plan.cost()
    assert parts.wall_ns == plan.finish_ns
    assert parts.idle_ns >= 0
    assert 0 <= parts.margin_ns <= plan.margin_ns * (plan.window_count - 1)
    if forecast.gaps.tolist() == actual.gaps.tolist():  # each gap was met with its margin free
        assert parts.margin_ns == plan.margin_ns * (plan.window_count - 1)
    assert parts.gap_ns == plan.gap_ns.sum()
    assert parts.active_ns == plan.active_ns(steps - 1) + plan.step_ns + plan.save_ns
    saves = 0
    for first, kept in zip(plan.first_step.tolist(), plan.kept_count.tolist(), strict=True):
        inside = [k for k in range(first + 1, first + kept + 1) if save_every and k % save_every == 0]
        saves += len({*inside, first + kept}) if kept else 0
    assert parts.save_ns == saves * plan.save_ns


def test_a_plan_that_holds_costs_its_saves_restores_and_margins():
    cost = ORBITS.plan(200, step_s=60, save_s=30, restore_s=15, margin_s=20).cost()
    # Windows: an hour, then 90 minutes each: 59 steps, then 88, then 53 and the end.
    assert (cost.redone_ns, cost.save_ns, cost.restore_ns) == (0, 3 * 30 * 10**9, 2 * 15 * 10**9)
    assert cost.margin_ns == 2 * 20 * 10**9
    assert cost.idle_ns == (3600 - 59 * 60 - 30 + 5400 - 88 * 60 - 45 - 2 * 20) * 10**9
    assert cost.gap_ns == 2 * 1800 * 10**9
    assert cost.overhead == pytest.approx((30 * 3 + 15 * 2 + 30 + 75) / 12_000)


def test_the_best_margin_covers_a_known_miss_and_no_more():
    early = Trace("early", ORBITS.span_ms, ORBITS.gaps - [13_000, 0])
    choices = advise(
        ORBITS, [early], 60_000, step_s=1, save_s=2, restore_s=2, margins_s=[0, 5, 10, 12, 13, 14, 20, 60]
    )
    assert choices[0].margin_ns == 13 * 10**9
    assert choices[0].lost_steps == 0


def test_among_random_failures_alone_the_best_interval_is_near_dalys():
    """The exact evaluation meets the formula where the formula holds: no gaps, only failures."""
    quiet = Trace("quiet", 40 * DAY_MS, [])
    mtbf_s, save_s = 4 * 3600, 30
    actuals = [with_outages(quiet, mtbf_s, 60, seed) for seed in range(10)]
    formula = daly_s(save_s, mtbf_s) / 10
    intervals = [round(formula * factor) for factor in (1 / 8, 1 / 3, 1, 3, 8)]
    choices = advise(quiet, actuals, 100_000, step_s=10, save_s=save_s, restore_s=30, save_every=intervals)
    assert choices[0].save_every == intervals[2]
    assert {choices[-1].save_every, choices[-2].save_every} == {intervals[0], intervals[4]}


def test_no_interval_helps_where_the_forecast_holds_and_one_does_where_it_does_not():
    options = {"step_s": 60, "save_s": 20, "restore_s": 20, "save_every": [None, 5, 15, 45]}
    assert advise(ORBITS, [ORBITS], 600, **options)[0].save_every is None
    failing = [with_outages(ORBITS, 3 * 3600, 120, seed) for seed in range(8)]
    assert advise(ORBITS, failing, 600, **options)[0].save_every is not None


def test_choices_that_cannot_end_are_left_out():
    quiet = Trace("quiet", DAY_MS, [])
    failing = [with_outages(quiet, 3600, 60, 0)]
    choices = advise(quiet, failing, 3000, step_s=60, save_s=1, save_every=[None, 30])
    assert [choice.save_every for choice in choices] == [30]
    with pytest.raises(AdviceError, match="no margin and interval"):
        advise(quiet, failing, 3000, step_s=60, save_s=1)
    with pytest.raises(AdviceError, match="at least one"):
        advise(quiet, [], 3000, step_s=60)


def test_formulas():
    """Young's square root, and Daly's series, which tends to it for rare failures and to M for frequent ones."""
    assert young_s(2, 3600) == 120
    assert daly_s(1, 1e9) == pytest.approx(young_s(1, 1e9), rel=1e-4)
    assert daly_s(100, 40) == 40
    # By hand, 5 min and 24 h: x = sqrt(5 / 2880), 120 (1 + x / 3 + x^2 / 9) - 5 min.
    assert daly_s(5 * 60, 24 * 3600) / 60 == pytest.approx(116.6898, abs=1e-3)
    for bad in ((0, 1), (1, 0), (1, float("inf"))):
        with pytest.raises(AdviceError, match="positive"):
            young_s(*bad)


def test_a_margin_of_three_sigma_loses_nothing_and_less_margin_loses_more():
    actuals = [shift_contacts(ORBITS, 10, seed, together=False) for seed in range(12)]
    options = {"step_s": 5, "save_s": 1, "margins_s": [0, 10, 40]}
    choices = advise(ORBITS, actuals, 12_000, **options)
    lost = {choice.margin_ns // 10**9: choice.lost_steps for choice in choices}
    assert lost[0] > lost[10] > lost[40] == 0
    assert choices[0].margin_ns == 40 * 10**9
