"""The two clocks that a run can follow: virtual time, laid down by its plan, and real time.

Both answer the same questions for a step that is about to start: is there a gap before it, and what do
the wall clock and the active clock say.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from ..plan import NS_PER_MS, NS_PER_S, Plan
from ..trace import Trace
from .methods import Gap

POLL_S = 0.2
CHUNK = 1024


@dataclass(frozen=True)
class Reading:
    """The clocks at a step's start: wall-clock and active time [ns], and whole steps of wall-clock time."""

    wall_ns: int
    active_ns: int
    wall_step: int


class VirtualClock:
    """Follows a plan; nothing waits.

    Where a forecast missed and steps were lost, their second run counts, with all the gaps since they were
    last saved as one.

    Parameters
    ----------
    plan : Plan
    window : int, optional
        The one window that is lived through, lost steps included: other windows' gaps do not come.
    """

    def __init__(self, plan: Plan, window: int | None = None):
        self.plan = plan
        self._gap_ns: dict[int, int] = {}
        for first, gap_ns in zip(plan.first_step.tolist(), plan.gap_ns.tolist(), strict=True):
            self._gap_ns[first] = self._gap_ns.get(first, 0) + gap_ns
        if window is not None:
            held = plan.lost_count[window] == 0
            around = plan.first_step[window : window + 2 if held else window + 1].tolist()
            self._gap_ns = {first: self._gap_ns[first] for first in around}
        self._chunk, self._readings = -1, []

    def gap_before(self, step: int) -> Gap | None:
        """Return the gap between the step before and this one."""
        gap_ns = self._gap_ns.get(step) if step else None
        return None if gap_ns is None else Gap(step, gap_ns // self.plan.step_ns, gap_ns / NS_PER_S)

    def read(self, step: int) -> Reading:
        """Return the clocks when a step starts."""
        chunk, place = divmod(step, CHUNK)
        if chunk != self._chunk:  # many steps at once: an array's look-up costs as much as a thousand
            steps = np.arange(chunk * CHUNK, min((chunk + 1) * CHUNK, self.plan.steps))
            clocks = (self.plan.step_start_ns(steps), self.plan.active_ns(steps), self.plan.wall_step(steps))
            self._readings = [Reading(*now) for now in zip(*(c.tolist() for c in clocks), strict=True)]
            self._chunk = chunk
        return self._readings[place]

    def wait(self, should_stop: Callable[[], bool]) -> None:
        """Do nothing: virtual time passes by itself."""

    def saved(self, duration_ns: int) -> None:
        """Take no notice: the plan says how long a save takes."""

    def state(self) -> dict[str, Any]:
        """Return nothing: the plan and the step say it all."""
        return {}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Take nothing up."""


class RealClock:
    """Follows a trace as real time goes by.

    Parameters
    ----------
    trace : Trace
        It repeats when it ends.
    step_ns, save_ns, margin_ns : int
        The nominal step, by which gaps and wall-clock time are counted; the time that a save may take (a longer
        one that was measured counts instead) and the time to leave free before a gap [ns].
    origin_unix_s : float
        The instant of the trace's t = 0.
    now : callable
        Returns seconds since 1970; `time.time`.
    sleep : callable
        `time.sleep`.

    Raises
    ------
    InputError
        If the trace holds no window, or its t = 0 has not come yet.
    """

    def __init__(
        self,
        trace: Trace,
        step_ns: int,
        save_ns: int,
        margin_ns: int,
        origin_unix_s: float,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ):
        if not len(trace.windows):
            raise InputError(f"trace {trace.trace_id} has no window: real-time training would wait for ever")
        self._gaps = trace.repeat(2).gaps.astype(np.int64) * NS_PER_MS  # two rounds: a gap may cross the end
        self._span_ns = trace.span_ms * NS_PER_MS
        self.step_ns, self.save_ns, self.margin_ns = step_ns, save_ns, margin_ns
        self.origin_ns, self._now, self._sleep = round(origin_unix_s * NS_PER_S), now, sleep
        self._first_wall_ns: int | None = None
        self._left_ns: int | None = None  # when the last window was left
        self._slowest_ns = step_ns  # until steps were measured
        self._step_began_ns: int | None = None
        if self.wall_ns() < 0:
            raise InputError(
                f"trace {trace.trace_id} starts {-self.wall_ns() / NS_PER_S:.0f} s from now: wait for it, or "
                "anchor it to now"
            )

    def wall_ns(self) -> int:
        """Return the wall-clock time since the trace's start [ns]."""
        return round(self._now() * NS_PER_S) - self.origin_ns

    def _needed_ns(self) -> int:
        """Return the time that must be left before a gap for a step to start [ns]."""
        return self._slowest_ns * 3 // 2 + self.save_ns + self.margin_ns

    def saved(self, duration_ns: int) -> None:
        """Learn how long a save takes."""
        self.save_ns = max(self.save_ns, duration_ns)

    def _gap_at_or_after(self, wall_ns: int) -> tuple[int, int] | None:
        """Return [start, stop) of the gap around or after an instant [ns], None if there is none at all."""
        round_, rest = divmod(wall_ns, self._span_ns)
        later = self._gaps[self._gaps[:, 1] > rest]
        if not len(later):
            return None
        return int(later[0, 0]) + round_ * self._span_ns, int(later[0, 1]) + round_ * self._span_ns

    def _gap_total_ns(self, start_ns: int, stop_ns: int) -> int:
        """Return how much of [start, stop) lies in gaps [ns]."""
        total, at = 0, start_ns
        while at < stop_ns:
            gap = self._gap_at_or_after(at)
            if gap is None or gap[0] >= stop_ns:
                break
            total += min(gap[1], stop_ns) - max(gap[0], at)
            at = gap[1]
        return total

    def gap_before(self, step: int) -> Gap | None:
        """Return the gap that must be waited out, or was slept through, before a step may start."""
        now = self.wall_ns()
        if self._step_began_ns is not None:
            self._slowest_ns = max(now - self._step_began_ns, self._slowest_ns * 9 // 10)
            self._step_began_ns = None
        if self._left_ns is not None:  # resumed: what lies between the checkpoint and now
            left, self._left_ns = self._left_ns, None
            gap = self._gap_at_or_after(now)
            stop = gap[1] if gap is not None and gap[0] <= now else now
            passed = self._gap_total_ns(left, stop)
            if passed:
                return Gap(step, passed // self.step_ns, passed / NS_PER_S)
        gap = self._gap_at_or_after(now)
        if gap is None or now + self._needed_ns() <= gap[0]:
            return None
        length = gap[1] - max(gap[0], now if step == 0 else gap[0])
        return Gap(step, length // self.step_ns, length / NS_PER_S)

    def read(self, step: int) -> Reading:
        """Return the clocks now, when a step starts."""
        now = self.wall_ns()
        self._step_began_ns = now
        if self._first_wall_ns is None:
            self._first_wall_ns = now
        active = now - self._gap_total_ns(0, now)
        return Reading(now, active, (now - self._first_wall_ns) // self.step_ns)

    def wait(self, should_stop: Callable[[], bool]) -> None:
        """Sleep until the gap that is near or here is over, or until asked to stop."""
        gap = self._gap_at_or_after(self.wall_ns())
        if gap is None or self.wall_ns() + self._needed_ns() <= gap[0]:
            return
        while self.wall_ns() < gap[1] and not should_stop():
            self._sleep(min(POLL_S, (gap[1] - self.wall_ns()) / NS_PER_S))

    def state(self) -> dict[str, Any]:
        """Return what a resume needs: when this state was saved, and when the run began."""
        return {
            "origin_ns": self.origin_ns,
            "left_ns": self.wall_ns(),
            "first_wall_ns": self._first_wall_ns,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on after a checkpoint, under the same anchor of the trace."""
        if state:
            self.origin_ns = state["origin_ns"]
            self._left_ns, self._first_wall_ns = state["left_ns"], state["first_wall_ns"]


def real_clock(trace: Trace, plan: Plan, anchor: Literal["now", "dates"] = "now") -> RealClock:
    """Return the real-time clock of a run: a plan's durations, and a trace moved to now or by its dates."""
    origin = origin_unix_s(trace, anchor, time.time())
    return RealClock(trace, plan.step_ns, plan.save_ns, plan.margin_ns, origin)


def origin_unix_s(trace: Trace, anchor: Literal["now", "dates"], now_unix_s: float) -> float:
    """Return the instant of a trace's t = 0 for a run in real time.

    Parameters
    ----------
    trace : Trace
    anchor : {"now", "dates"}
        ``now`` moves the trace here; ``dates`` takes its own.
    now_unix_s : float
        Seconds since 1970.

    Raises
    ------
    InputError
        If its dates do not hold now, or it has none.
    """
    if anchor == "now":
        return now_unix_s
    if anchor != "dates":
        raise InputError(f"a run in real time is anchored to 'now' or 'dates', got {anchor!r}")
    if trace.start is None or trace.stop is None:
        raise InputError(f"trace {trace.trace_id} is tied to no date: anchor it to now")
    if not trace.start.timestamp() <= now_unix_s < trace.stop.timestamp():
        raise InputError(
            f"trace {trace.trace_id} holds from {trace.start.isoformat()} to {trace.stop.isoformat()}, and that "
            "is not now: build one from fresh elements, or anchor it to now"
        )
    return trace.start.timestamp()
