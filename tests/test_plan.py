from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orbittrace_data import Plan, Trace, periodic_pause_trace
from orbittrace_data.plan import NS_PER_MS, PlanError, plan_run

FEW = settings(max_examples=100, deadline=None)
CONTROL = Trace("control", 1_000, [])
ORBIT = Trace("orbit", 92 * 60_000, [[57 * 60_000, 92 * 60_000]])


@st.composite
def traces(draw, max_span=60):
    span = draw(st.integers(1, max_span))
    edges = draw(st.lists(st.integers(0, span), max_size=12))
    edges = sorted(edges[: len(edges) // 2 * 2])
    return Trace("drawn", span, np.array(edges, np.int64).reshape(-1, 2))


@st.composite
def runs(draw):
    milliseconds = st.integers(0, 6)
    return (
        draw(traces()),
        draw(st.integers(1, 40)),
        {
            "step_s": Fraction(draw(st.integers(1, 12)), 1000),
            "save_s": Fraction(draw(milliseconds), 1000),
            "restore_s": Fraction(draw(milliseconds), 1000),
            "margin_s": Fraction(draw(milliseconds), 1000),
        },
    )


def simulate(trace, steps, *, step_s, save_s, restore_s, margin_s, repeat=True, rounds=400):
    """Walk through the trace one millisecond and one step at a time; None if it never ends."""
    step, save, restore, margin = (int(s * 1000) for s in (step_s, save_s, restore_s, margin_s))
    up = np.ones(trace.span_ms, bool)
    for a, b in trace.gaps:
        up[a:b] = False
    if repeat:
        up = np.tile(up, rounds)
    starts, gaps, k, unavailable, t = [], [], 0, 0, 0
    while t < len(up):
        if not up[t]:
            unavailable += 1
            t += 1
            continue
        stop = t
        while stop < len(up) and up[stop]:
            stop += 1
        before_gap = margin if stop < len(up) else 0
        at = t + (restore if starts else 0)
        if at + step + save + before_gap <= stop:
            gaps.append(unavailable)
            unavailable = 0
        while at + step + save + before_gap <= stop:
            starts.append(at)
            at, k = at + step, k + 1
            if k == steps:
                return starts, gaps, at + save
        t = stop
    return None


@FEW
@given(runs(), st.booleans())
def test_plan_equals_a_step_by_step_simulation(run, repeat):
    trace, steps, cost = run
    expected = simulate(trace, steps, **cost, repeat=repeat)
    if expected is None:
        with pytest.raises(PlanError, match=r"never finish|fit into its span"):
            plan_run(trace, steps, **cost, repeat=repeat)
        return
    starts, gaps, finish = expected
    plan = plan_run(trace, steps, **cost, repeat=repeat)
    assert plan.step_start_ns(np.arange(steps)).tolist() == [ms * NS_PER_MS for ms in starts]
    assert plan.gap_ns.tolist() == [ms * NS_PER_MS for ms in gaps]
    assert plan.finish_ns == finish * NS_PER_MS


@FEW
@given(runs())
def test_every_step_runs_once_in_a_window_and_none_more_would_fit(run):
    trace, steps, cost = run
    try:
        plan = trace.plan(steps, **cost)
    except PlanError:
        assume(False)
    k = np.arange(steps)
    start = plan.step_start_ns(k)
    assert (np.diff(start) >= plan.step_ns).all()
    assert plan.first_step.tolist() == np.cumsum([0, *plan.step_count[:-1]]).tolist()
    assert plan.step_count.sum() == steps
    assert (plan.step_count >= 1).all()
    window = plan.window_of(k)
    assert (start >= plan.window_start_ns[window]).all()
    left = plan.window_stop_ns - plan.train_stop_ns - plan.save_ns
    if not trace.is_control:
        assert (left >= plan.margin_ns).all()
        assert (left[:-1] < plan.margin_ns + plan.step_ns).all()
    tiled = trace.repeat(-(-plan.finish_ns // NS_PER_MS // trace.span_ms) + 1)
    assert tiled.is_available(start // NS_PER_MS).all()
    whole_ms = start // NS_PER_MS  # durations are whole milliseconds here, so the trace's clock is exact
    assert (plan.active_ns(k) == tiled.active_ms(whole_ms) * NS_PER_MS).all()


@FEW
@given(runs(), st.sampled_from(["step_s", "save_s", "margin_s"]))
def test_without_restores_a_costlier_run_is_nowhere_ahead(run, costlier):
    trace, steps, cost = run
    cost["restore_s"] = 0  # the first window spares it, so a later start can be the better one
    try:
        cheap = trace.plan(steps, **cost)
        dear = trace.plan(steps, **{**cost, costlier: cost[costlier] + Fraction(1, 1000)})
    except PlanError:
        assume(False)
    k = np.arange(steps)
    assert (dear.step_start_ns(k) >= cheap.step_start_ns(k)).all()


@FEW
@given(runs(), st.integers(1, 40))
def test_a_longer_run_begins_like_a_shorter_one(run, more):
    trace, steps, cost = run
    try:
        short = trace.plan(steps, **cost)
    except PlanError:
        assume(False)
    k = np.arange(steps)
    try:
        long = trace.plan(steps + more, **cost)
    except PlanError:
        assume(False)
    assert (long.step_start_ns(k) == short.step_start_ns(k)).all()
    assert long.digest != short.digest


@FEW
@given(runs(), st.integers(2, 5))
def test_a_repeated_trace_makes_the_same_plan(run, n):
    trace, steps, cost = run
    try:
        plan = trace.plan(steps, **cost)
    except PlanError:
        assume(False)
    again = trace.repeat(n).plan(steps, **cost)
    # Without a gap there is no window end to plan for; the span's end stands in and is not the same.
    if not trace.is_control:
        assert again == plan
        assert again.digest == plan.digest
        assert hash(again) == hash(plan)


def test_without_gaps_wall_clock_active_time_and_steps_are_one():
    plan = CONTROL.plan(2_500, step_s=0.01, save_s=3, restore_s=5, margin_s=7)
    k = np.arange(2_500)
    assert plan.window_count == 1
    assert (plan.step_start_ns(k) == k * 10_000_000).all()
    assert (plan.active_ns(k) == plan.step_start_ns(k)).all()
    assert (plan.wall_step(k) == k).all()
    assert plan.wall_horizon == 2_500
    assert plan.delta.tolist() == [0]
    assert plan.finish_ns == 28_000_000_000


def test_wall_steps_count_gaps_and_delta_leaves_save_restore_and_idle_time_out():
    plan = ORBIT.plan(200, step_s=60, save_s=30, restore_s=15, margin_s=20)
    # 57 minutes hold 56 steps (30 s + 20 s do not fit beside 57), so 10 s stay idle.
    assert plan.step_count.tolist() == [56, 55, 55, 34]
    assert plan.gap_ns.tolist() == [0] + [35 * 60 * 10**9] * 3
    assert plan.delta.tolist() == [0, 35, 35, 35]
    assert plan.wall_step([55, 56, 57]).tolist() == [55, 92, 93]
    assert plan.wall_horizon == 3 * 92 + 34


def test_a_window_too_short_is_passed_over_and_its_gaps_add_up():
    trace = Trace("demo", 100, [[20, 30], [33, 40], [90, 100]])
    plan = trace.plan(5, step_s=0.01, repeat=False, save_s=0.001)
    assert plan.window_start_ns.tolist() == [0, 40_000_000]
    assert plan.step_count.tolist() == [1, 4]
    assert plan.gap_ns.tolist() == [0, 17_000_000]
    assert plan.delta.tolist() == [0, 1]


def test_a_run_that_starts_in_a_gap_waits_and_its_clock_starts_with_its_first_step():
    plan = Trace("demo", 100, [[0, 40]]).plan(8, step_s=0.01)
    assert plan.step_start_ns(0) == 40_000_000
    assert plan.active_ns(0) == 0
    assert plan.wall_step([0, 5, 6]).tolist() == [0, 5, 10]
    assert plan.delta.tolist() == [0, 4]
    assert plan.gap_ns.tolist() == [40_000_000, 40_000_000]


@pytest.mark.parametrize(
    ("seconds", "nanoseconds"),
    [
        (0.8, 800_000_000),
        (0.1, 100_000_000),
        (3, 3_000_000_000),
        (Decimal("1e-9"), 1),
        (Fraction(1, 3), 333_333_333),
        (np.float64(1e-9), 1),
        (Fraction(3, 2 * 10**9), 2),
        (Fraction(5, 2 * 10**9), 2),
    ],
)
def test_durations_are_rounded_once_to_nanoseconds_half_to_even(seconds, nanoseconds):
    assert ORBIT.plan(1, step_s=seconds).step_ns == nanoseconds


def test_millions_of_steps_over_weeks_stay_exact():
    plan = ORBIT.plan(10_000_000, step_s=0.123456789)
    last = plan.step_start_ns(9_999_999)
    window = int(plan.window_of(9_999_999))
    in_window = 9_999_999 - int(plan.first_step[window])
    assert last == window * 92 * 60 * 10**9 + in_window * 123_456_789


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_s": 0}, "at least a nanosecond"),
        ({"step_s": -1}, "not negative"),
        ({"step_s": float("nan")}, "finite"),
        ({"step_s": True}, "number of seconds"),
        ({"step_s": "1"}, "number of seconds"),
        ({"step_s": 1e11}, "73 years"),
        ({"step_s": 1, "save_s": -0.5}, "save_s"),
        ({"step_s": 1, "steps": 0}, "at least 1"),
        ({"step_s": 1, "steps": 1.5}, "whole number"),
        ({"step_s": 1, "steps": True}, "whole number"),
        ({"step_s": 3500}, "never finish: the longest window lasts 3420 s"),
        ({"step_s": 3400, "save_s": 30}, "never finish"),
        ({"step_s": 3000, "restore_s": 500, "steps": 2}, "never finish"),
        ({"step_s": 60, "steps": 58, "repeat": False}, "57 steps fit into its span once"),
        ({"step_s": 1, "steps": 10**15}, "at most 292"),
    ],
)
def test_a_run_that_cannot_be_planned_is_refused(options, message):
    with pytest.raises(PlanError, match=message):
        ORBIT.plan(**{"steps": 1, **options})


def test_a_trace_without_any_window_can_never_finish():
    with pytest.raises(PlanError, match="never finish"):
        Trace("dark", 100, [[0, 100]]).plan(1, step_s=0.001)


def test_steps_outside_the_plan_are_refused():
    plan = ORBIT.plan(10, step_s=1)
    for step in (-1, 10, [0, 10], 1.5):
        with pytest.raises(PlanError, match=r"\[0, 10\)"):
            plan.step_start_ns(step)


def test_the_arrays_cannot_be_changed_and_the_digest_tells_runs_apart():
    plan = ORBIT.plan(10, step_s=1)
    assert isinstance(plan, Plan)
    for name in ("window_start_ns", "first_step", "step_count", "gap_ns", "delta", "train_start_ns"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(plan, name)[0] = 1
    others = [
        ORBIT.plan(11, step_s=1),
        ORBIT.plan(10, step_s=2),
        ORBIT.plan(10, step_s=1, save_s=1),
        ORBIT.plan(10, step_s=1, restore_s=1),
        ORBIT.plan(10, step_s=1, margin_s=1),
        Trace("other", 100_000, [[50_000, 100_000]]).plan(10, step_s=1),
    ]
    assert len({plan.digest, *(other.digest for other in others)}) == 7


def test_the_digest_is_the_same_on_every_machine():
    assert ORBIT.plan(100, step_s=60).digest == (
        "83888b13edfd04d1b7f6e6453d6b77a324b2b70c86ce77a3350a98cf6c571cb9"
    )


def test_periodic_pauses():
    trace = periodic_pause_trace(every_s=10, pause_s=2)
    assert (trace.span_ms, trace.gaps.tolist()) == (12_000, [[10_000, 12_000]])
    plan = trace.plan(50, step_s=0.5)
    assert set(plan.step_count.tolist()[:-1]) == {20}
    assert plan.delta.tolist() == [0, 4, 4]


@pytest.mark.parametrize("bad", [0, -1, 0.0005, "10", float("inf")])
def test_periodic_pauses_need_whole_milliseconds(bad):
    with pytest.raises(ValueError, match="every_s"):
        periodic_pause_trace(every_s=bad, pause_s=2)
    with pytest.raises(ValueError, match="pause_s"):
        periodic_pause_trace(every_s=2, pause_s=bad)
