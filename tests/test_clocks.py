from datetime import UTC, datetime

import numpy as np
import pytest

from orbittrace_data import Trace
from orbittrace_data.trainers import checkpoint
from orbittrace_data.trainers.clocks import RealClock, VirtualClock, origin_unix_s
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.loop import train

S = 10**9
TRACE = Trace("t", 10_000, [[4_000, 7_000]])


class Time:
    """Time that goes by when somebody sleeps, and by a little with every look at it."""

    def __init__(self, at_s, tick_s=0.0):
        self.at_s, self.tick_s, self.slept_s = at_s, tick_s, 0.0

    def now(self):
        self.at_s += self.tick_s
        return self.at_s

    def sleep(self, seconds):
        self.at_s += seconds
        self.slept_s += seconds


def real_clock(time, trace=TRACE, step_s=1.0, save_s=0.0, margin_s=0.0, origin_s=1000.0):
    return RealClock(
        trace, int(step_s * S), int(save_s * S), int(margin_s * S), origin_s, time.now, time.sleep
    )


def test_virtual_time_is_the_plan():
    plan = TRACE.plan(3000, step_s=0.5, save_s=0.25, restore_s=0.125)
    clock = VirtualClock(plan)
    steps = list(range(0, 3000, 7))
    readings = [clock.read(step) for step in steps]
    assert [r.wall_ns for r in readings] == plan.step_start_ns(steps).tolist()
    assert [r.active_ns for r in readings] == plan.active_ns(steps).tolist()
    assert [r.wall_step for r in readings] == plan.wall_step(steps).tolist()
    gaps = {step: clock.gap_before(step) for step in range(3000) if clock.gap_before(step)}
    assert list(gaps) == plan.first_step[1:].tolist()
    assert [gap.delta for gap in gaps.values()] == plan.delta[1:].tolist()


def test_gaps_between_two_saves_count_as_one_where_work_was_lost():
    actual = Trace("t", 10_000, [[1_500, 2_000], [4_000, 7_000]])
    plan = TRACE.plan(12, step_s=1, actual=actual)
    assert plan.lost_count.sum() > 0
    clock = VirtualClock(plan)
    total = sum(gap.duration_s for gap in map(clock.gap_before, range(12)) if gap is not None)
    kept_from = plan.first_step > 0
    assert total == plan.gap_ns[kept_from].sum() / S


def test_a_step_that_cannot_end_and_be_saved_before_the_gap_waits_for_the_next_window():
    time = Time(1000.0)
    clock = real_clock(time, step_s=0.5, save_s=0.25, margin_s=0.5)
    time.at_s = 1002.4  # 1.6 s before the gap: 1.5 nominal steps, the save and the margin need 1.5 s
    assert clock.gap_before(1) is None
    time.at_s = 1002.6
    gap = clock.gap_before(1)
    assert (gap.step, gap.delta, gap.duration_s) == (1, 6, 3.0)
    clock.wait(lambda: False)
    assert time.at_s == pytest.approx(1007.0)
    assert clock.gap_before(1) is None


def test_slow_steps_and_saves_are_learnt():
    time = Time(1000.0)
    clock = real_clock(time, step_s=0.1)
    clock.read(0)
    time.at_s += 1.0
    assert clock.gap_before(1) is None  # at 1001.0; a step takes 1 s, so 1.5 s are needed
    clock.saved(int(1.4 * S))
    time.at_s = 1001.2
    assert clock.gap_before(1) is not None  # 2.8 s are left, 0.9 * 1.5 + 1.4 would be free
    quick = real_clock(Time(1001.2), step_s=0.1)
    assert quick.gap_before(1) is None


def test_a_trace_repeats_and_a_gap_over_its_seam_is_one():
    seam = Trace("seam", 10_000, [[0, 1_000], [9_000, 10_000]])
    time = Time(1008.9)
    clock = real_clock(time, seam)
    assert clock.gap_before(3).duration_s == 2.0
    clock.wait(lambda: False)
    assert time.at_s == pytest.approx(1011.0)
    time.at_s = 1025.0
    reading = clock.read(3)
    assert (reading.wall_ns, reading.active_ns) == (25 * S, 20 * S)


def test_a_run_that_starts_in_a_gap_waits_for_its_end():
    time = Time(1005.0)
    clock = real_clock(time)
    assert clock.gap_before(0).duration_s == 2.0
    clock.wait(lambda: False)
    assert clock.read(0).wall_ns == 7 * S
    assert clock.read(0).wall_step == 0


def test_a_wait_ends_when_asked():
    time = Time(1005.0)
    clock = real_clock(time)
    clock.wait(lambda: time.slept_s >= 0.4)
    assert time.at_s == pytest.approx(1005.4)


def test_a_resume_counts_the_gap_that_it_slept_through():
    clock = real_clock(Time(1003.0))
    clock.read(0)
    state = clock.state()
    later = Time(1008.0)
    resumed = real_clock(later, origin_s=1007.5)  # anchored anew: the saved anchor counts
    resumed.resume(state)
    gap = resumed.gap_before(5)
    assert (gap.delta, gap.duration_s) == (3, 3.0)
    assert resumed.gap_before(5) is None
    assert resumed.read(5).wall_step == 5
    within = real_clock(Time(1005.0))
    within.resume(state)
    assert within.gap_before(5).duration_s == 3.0  # it is still on: all of it counts
    no_gap = real_clock(Time(1003.2), step_s=0.1)
    no_gap.resume(state)
    assert no_gap.gap_before(5) is None


def test_anchors():
    dated = Trace("d", 10_000, [[4_000, 7_000]], start=datetime(2026, 1, 1, tzinfo=UTC))
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert origin_unix_s(dated, "now", 5.0) == 5.0
    assert origin_unix_s(dated, "dates", start + 9) == start
    for now, trace, message in [
        (start - 1, dated, "holds from 2026"),
        (start + 10, dated, "holds from 2026"),
        (start, TRACE, "tied to no date"),
    ]:
        with pytest.raises(ValueError, match=message):
            origin_unix_s(trace, "dates", now)
    with pytest.raises(ValueError, match="no window"):
        real_clock(Time(1000.0), Trace("dark", 10, [[0, 10]]))
    with pytest.raises(ValueError, match="starts 5 s from now"):
        real_clock(Time(995.0))


def test_strong_in_real_time_is_uninterrupted_bit_for_bit_and_saves_before_each_gap(tmp_path):
    trace = Trace("short", 1_000, [[600, 1_000]])  # 0.6 s of power, 0.4 s without
    config = Config("resnet-mnist", trace, steps=40, step_s=0.02)
    import time

    clock = RealClock(trace, config.plan.step_ns, 0, 20_000_000, time.time())
    result = train(config, tmp_path, clock=clock, keep=999)
    whole = train(Config("resnet-mnist", trace, "uninterrupted", steps=40, step_s=0.02))
    assert result.state_sha256 == whole.state_sha256
    assert result.log["loss"].equals(whole.log["loss"])
    windows = np.array(result.log["window"])
    assert windows[-1] >= 1
    firsts = {int(np.argmax(windows == w)) for w in range(1, windows[-1] + 1)}
    saved = {checkpoint.step_of(path) for path in checkpoint.checkpoints(tmp_path / "checkpoints")}
    assert firsts <= saved
    assert set(result.log["delta"].to_pylist()) == {0, 20}
    phase = np.array(result.log["wall_ns"]) % S / S
    assert (phase < 0.6).all()  # no step starts in a gap
