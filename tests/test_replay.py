from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from replay_runs import runs

from orbittrace_data.plan import NS_PER_MS, PlanError, plan_run
from orbittrace_data.replay import replay
from orbittrace_data.trace import Trace

FEW = settings(max_examples=100, deadline=None)


def up(trace, rounds):
    available = np.ones(trace.span_ms, bool)
    for a, b in trace.gaps:
        available[a:b] = False
    return np.tile(available, rounds)


def simulate(forecast, actual, steps, cost, save_every, repeat):
    """Live through the run a millisecond at a time: (start of every kept step, steps run, finish)."""
    step, save, restore, margin = cost
    rounds = 120 + 1500 // forecast.span_ms
    offered, powered = (up(trace, rounds if repeat else 1) for trace in (forecast, actual))
    end = len(offered)
    deadlines = np.full(end + 1, 10**9 if repeat and forecast.is_control else end)
    for t in range(end - 1, -1, -1):
        deadlines[t] = deadlines[t + 1] if offered[t] else t - margin
    kept, starts, ran, saved = {}, {}, 0, 0
    done, doing, left, opened = 0, None, 0, False  # steps in memory; what goes on; ms of it left

    def due(n):
        return save_every and n % save_every == 0

    def fits(t, at):
        """Say whether one more step and the save that must follow it end in time."""
        return at + step + save <= deadlines[t]

    for t in range(end + 1):
        while doing and left == 0:  # what ends now has ended, whatever happens to the power now
            if doing == "step":
                done, ran = done + 1, ran + 1
                stops = done == steps or due(done) or not fits(t, t)
                doing, left = ("save", save) if stops else ("next", 0)
            elif doing == "save":
                saved = done
                kept.update(starts)
                if done == steps:
                    return [kept[k] for k in range(steps)], ran, t
                doing = "next" if fits(t, t) else None
            elif t < end and powered[t] and offered[t]:  # next, or restored
                starts[done] = t
                doing, left = "step", step
            else:
                doing = None
        if t == end or not powered[t] or not offered[t]:
            done, doing, opened = saved, None, False
        elif not opened:
            opened = True
            pause = restore if saved else 0
            if fits(t, t + pause):
                doing, left = "restored", pause
                if pause == 0:
                    starts[done] = t
                    doing, left = "step", step
        left -= doing is not None
    return None


@settings(max_examples=150, deadline=None)
@given(runs(), st.booleans())
def test_replay_equals_a_simulation_of_every_millisecond(run, repeat):
    forecast, actual, steps, cost, save_every = run
    expected = simulate(forecast, actual, steps, cost, save_every, repeat)
    ns = tuple(c * NS_PER_MS for c in cost)
    if expected is None:
        with pytest.raises(PlanError, match=r"never finish|fit into its span"):
            replay(forecast, actual, steps, ns, save_every, repeat)
        return
    starts, ran, finish = expected
    plan = replay(forecast, actual, steps, ns, save_every, repeat)
    assert plan.step_start_ns(np.arange(steps)).tolist() == [ms * NS_PER_MS for ms in starts]
    assert plan.step_count.sum() == ran
    assert plan.finish_ns == finish * NS_PER_MS
    assert (plan.kept_count >= 0).all()
    assert (plan.lost_count >= 0).all()
    assert plan.kept_count.sum() == steps


@FEW
@given(runs(), st.booleans())
def test_a_forecast_that_holds_makes_the_same_plan(run, repeat):
    forecast, _, steps, cost, _ = run
    seconds = dict(
        zip(("step_s", "save_s", "restore_s", "margin_s"), (Fraction(c, 1000) for c in cost), strict=True)
    )
    try:
        plan = plan_run(forecast, steps, **seconds, repeat=repeat)
    except PlanError as error:
        with pytest.raises(PlanError, match="never finish" if "never" in str(error) else "fit into"):
            plan_run(forecast, steps, **seconds, repeat=repeat, actual=forecast)
        return
    again = plan_run(forecast, steps, **seconds, repeat=repeat, actual=forecast)
    assert again == plan
    assert not again.lost_count.any()


@FEW
@given(runs())
def test_kept_steps_run_where_both_are_available_and_the_clocks_agree(run):
    forecast, actual, steps, cost, save_every = run
    try:
        plan = replay(forecast, actual, steps, tuple(c * NS_PER_MS for c in cost), save_every, True)
    except PlanError:
        assume(False)
    start_ms = plan.step_start_ns(np.arange(steps)) // NS_PER_MS
    rounds = -(-plan.finish_ns // NS_PER_MS // actual.span_ms) + 1
    for ms in range(cost[0]):
        assert actual.repeat(rounds).is_available(start_ms + ms).all()
        assert forecast.repeat(rounds).is_available(start_ms + ms).all()
    assert (plan.active_ns(np.arange(steps)) == actual.repeat(rounds).active_ms(start_ms) * NS_PER_MS).all()
    assert (np.diff(start_ms) >= cost[0]).all()


def test_a_gap_that_comes_early_loses_the_work_since_the_last_save():
    """Ten steps of a second are planned before the gap at 12 s; it comes at 8.5 s: eight are lost."""
    forecast = Trace("f", 60_000, [[12_000, 20_000]])
    early = Trace("a", 60_000, [[8_500, 20_000]])
    run = {"step_s": 1, "save_s": 1, "restore_s": 2, "margin_s": 1, "repeat": False}
    plan = forecast.plan(20, **run, actual=early)
    assert (plan.first_step.tolist(), plan.step_count.tolist()) == ([0, 0], [8, 20])
    assert plan.train_start_ns.tolist() == [0, 20 * 10**9]  # nothing was saved: nothing to restore
    saving = forecast.plan(20, **run, actual=early, save_every=3)
    assert (saving.first_step.tolist(), saving.step_count.tolist()) == ([0, 6], [6, 14])
    assert saving.step_start_ns([3, 6]).tolist() == [4 * 10**9, 22 * 10**9]


def test_a_gap_that_comes_late_wastes_its_margin_and_a_wider_margin_saves_early_ones():
    forecast = Trace("f", 60_000, [[12_000, 20_000]])
    late = Trace("a", 60_000, [[15_000, 24_000]])
    run = {"step_s": 1, "save_s": 1, "restore_s": 2, "repeat": False}
    plan = forecast.plan(20, **run, actual=late)
    assert (plan.step_count.tolist(), plan.lost_count.tolist()) == ([11, 9], [0, 0])
    assert plan.window_start_ns.tolist() == [0, 24 * 10**9]
    early = Trace("a", 60_000, [[11_000, 20_000]])
    assert forecast.plan(20, **run, actual=early).lost_count.tolist() == [11, 0]
    assert forecast.plan(20, **run, actual=early, margin_s=1).lost_count.tolist() == [0, 0]


def test_an_outage_that_no_forecast_holds():
    outage = Trace("a", 60_000, [[30_000, 33_000]])
    plan = Trace("f", 60_000, []).plan(50, step_s=1, save_s=0, actual=outage, save_every=8, repeat=False)
    assert (plan.first_step.tolist(), plan.lost_count.tolist()) == ([0, 24], [6, 0])
    assert plan.gap_ns.tolist() == [0, 3 * 10**9]
    assert plan.delta.tolist() == [0, 3]


def test_a_run_that_the_surprise_never_lets_end():
    forecast = Trace("f", 100, [])
    actual = Trace("a", 100, [[50, 60]])
    with pytest.raises(PlanError, match="never finish"):
        forecast.plan(200, step_s=0.001, save_s=0.001, actual=actual)
    assert forecast.plan(200, step_s=0.001, save_s=0.001, actual=actual, save_every=10).steps == 200


def test_other_inputs_are_refused():
    trace = Trace("f", 100, [[50, 60]])
    with pytest.raises(PlanError, match="crop the longer"):
        trace.plan(5, step_s=0.01, actual=Trace("a", 99, []))
    for save_every in (0, True, -1):
        with pytest.raises(PlanError, match="save_every"):
            trace.plan(5, step_s=0.01, save_every=save_every)


def test_state_ages_through_every_gap_since_it_was_saved():
    forecast = Trace("f", 100_000, [[10_000, 20_000], [50_000, 60_000]])
    actual = Trace("a", 100_000, [[10_000, 20_000], [24_000, 27_000], [50_000, 60_000]])
    plan = forecast.plan(60, step_s=1, actual=actual, repeat=False)
    assert (plan.first_step.tolist(), plan.step_count.tolist()) == ([0, 10, 10, 33], [10, 4, 23, 27])
    assert plan.gap_ns.tolist() == [0, 10 * 10**9, 3 * 10**9, 10 * 10**9]
    assert plan.delta.tolist() == [0, 10, 13, 10]
