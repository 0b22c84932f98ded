"""The plan of a run: which training step runs when, under one trace, in whole nanoseconds.

A plan is computed before the run and decides it: the windows in which it trains, the first step and
the number of steps in each, and the gaps in between. Nothing in it depends on how fast a machine is.
"""

import hashlib
import math
import operator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError
from .trace import Trace

if TYPE_CHECKING:
    from .cost import PlanCost

Seconds = int | float | Fraction | Decimal

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
MAX_NS = 2**63 - 1  # 292 years
MAX_DURATION_NS = MAX_NS // 4  # so that sums of a few durations stay in int64
MAX_WINDOWS = 10_000_000


class PlanError(InputError):
    """A run that cannot be planned."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """When each step of a run takes place; made by `plan_run`.

    Wall-clock times count from the trace's start [ns]. Only windows in which the run trains are held.

    Parameters
    ----------
    trace_id : str
        The trace that was planned on.
    steps : int
        Training steps in all.
    step_ns, save_ns, restore_ns, margin_ns : int
        Duration of a step, of a save at a window's end and of a restore at its start, and the time
        left free before a gap [ns].
    save_every : int
        Saves come also after each step whose number (from 1) is a multiple of this; 0 for none.
    window_start_ns, window_stop_ns : ndarray of int64, shape (w,)
        [start, stop) of each window in which it trains [ns].
    first_step, step_count : ndarray of int64, shape (w,)
        Steps [first_step, first_step + step_count) run in the window. Where the next window's first
        step lies before their end, the steps from it on were lost and run again.
    gap_ns : ndarray of int64, shape (w,)
        Unavailable time since the window before in which it trained [ns]; for the first, since the
        trace's start.

    Examples
    --------
    >>> from orbittrace_data import Trace
    >>> plan = Trace("demo", 10_000, gaps=[[4_000, 7_000]]).plan(5, step_s=1.5, restore_s=0.5)
    >>> plan.first_step.tolist(), plan.step_count.tolist(), plan.delta.tolist()
    ([0, 2], [2, 3], [0, 2])
    >>> plan.step_start_ns([0, 1, 2]).tolist()
    [0, 1500000000, 7500000000]
    """

    trace_id: str
    steps: int
    step_ns: int
    save_ns: int
    restore_ns: int
    margin_ns: int
    save_every: int
    window_start_ns: NDArray[np.int64]
    window_stop_ns: NDArray[np.int64]
    first_step: NDArray[np.int64]
    step_count: NDArray[np.int64]
    gap_ns: NDArray[np.int64]

    @cached_property
    def train_start_ns(self) -> NDArray[np.int64]:
        """When each window's first step starts [ns]: after the restore, where something was saved."""
        return read_only(self.window_start_ns + np.where(self.first_step > 0, self.restore_ns, 0))

    @cached_property
    def train_stop_ns(self) -> NDArray[np.int64]:
        """When each window's last step ends, and the save after it begins [ns]."""
        last = self.first_step + self.step_count - 1
        saves = self._saves_until(last) - self._saves_until(self.first_step)
        return read_only(self.train_start_ns + self.step_count * self.step_ns + saves * self.save_ns)

    @cached_property
    def kept_count(self) -> NDArray[np.int64]:
        """Steps of each window that a save kept."""
        return read_only(np.diff(self.first_step, append=self.steps))

    @cached_property
    def lost_count(self) -> NDArray[np.int64]:
        """Steps of each window that were lost and are run again; all 0 where the forecast held."""
        return read_only(self.step_count - self.kept_count)

    def _saves_until(self, step: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the multiples of save_every that come before steps start."""
        return step // self.save_every if self.save_every else np.zeros_like(step)

    @cached_property
    def delta(self) -> NDArray[np.int64]:
        """Unavailable time since a window's state was saved, in whole steps; 0 where none was saved.

        That is the gap before the window, and where windows were lost in between, all gaps since.
        """
        gone_ns = np.cumsum(self.gap_ns)
        first_try = np.searchsorted(self.first_step, self.first_step)
        delta = (gone_ns - gone_ns[first_try] + self.gap_ns[first_try]) // self.step_ns
        return read_only(np.where(self.first_step > 0, delta, 0))

    @property
    def window_count(self) -> int:
        """Number of windows in which it trains."""
        return len(self.first_step)

    @property
    def finish_ns(self) -> int:
        """Wall-clock time at which the last save has ended [ns]."""
        return int(self.train_stop_ns[-1]) + self.save_ns

    @property
    def wall_horizon(self) -> int:
        """Wall-clock steps from the first step's start to the last one's end, in whole steps."""
        return int(self.wall_step(self.steps - 1)) + 1

    def window_of(self, step: ArrayLike) -> Any:
        """Find the index of the window in which steps run (and are kept, where they run twice).

        Parameters
        ----------
        step : int or array_like of int, shape (...)
            In [0, steps).

        Returns
        -------
        int or ndarray of int64, shape (...)
        """
        k = np.asarray(step)
        if k.dtype.kind not in "iu" or (k.size and (k.min() < 0 or k.max() >= self.steps)):
            raise PlanError(f"a step of this plan is a whole number in [0, {self.steps}), got {step!r}")
        return _like(step, np.searchsorted(self.first_step, k, side="right") - 1)

    def step_start_ns(self, step: ArrayLike) -> Any:
        """Convert steps to the wall-clock time at which they start [ns], shape as given."""
        window = self.window_of(step)
        k, first = np.asarray(step), self.first_step[window]
        saves = self._saves_until(k) - self._saves_until(first)
        return _like(step, self.train_start_ns[window] + (k - first) * self.step_ns + saves * self.save_ns)

    def active_ns(self, step: ArrayLike) -> Any:
        """Convert steps to the active time at which they start [ns]: wall-clock time less the gaps."""
        gone = np.cumsum(self.gap_ns)[self.window_of(step)]
        return _like(step, self.step_start_ns(step) - gone)

    def wall_step(self, step: ArrayLike) -> Any:
        """Convert steps to whole steps of wall-clock time since the first step's start.

        This is the index of a learning-rate schedule that runs on through gaps.
        """
        return _like(step, (self.step_start_ns(step) - self.train_start_ns[0]) // self.step_ns)

    def cost(self) -> "PlanCost":
        """Divide the wall-clock time of the run; see `orbittrace_data.cost.PlanCost`."""
        from .cost import plan_cost

        return plan_cost(self)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of everything that decides a run under this plan (not the trace's name)."""
        head = [self.steps, self.step_ns, self.save_ns, self.restore_ns, self.margin_ns, self.window_count]
        head += [self.save_every] if self.save_every else []
        windows = (
            self.window_start_ns,
            self.window_stop_ns,
            self.first_step,
            self.step_count,
            self.gap_ns,
        )
        content = np.concatenate([np.array(head, np.int64), *windows]).astype("<i8")
        return hashlib.sha256(content.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"<Plan under {self.trace_id}: {self.steps} steps of {self.step_ns / NS_PER_S:.6g} s in "
            f"{self.window_count} windows, over after {self.finish_ns / NS_PER_S:.6g} s>"
        )


def plan_run(
    trace: Trace,
    steps: int,
    *,
    step_s: Seconds,
    save_s: Seconds = 0,
    restore_s: Seconds = 0,
    margin_s: Seconds = 0,
    save_every: int | None = None,
    actual: Trace | None = None,
    repeat: bool = True,
) -> Plan:
    """Lay a run of training steps into a trace's windows, as early as possible.

    A window begins with a restore, unless it is the run's first, and ends with a save; both cost active
    time. A step starts only if it and the save can end before the gap, less the margin. A window too
    short for one step is passed over: it neither restores nor saves. The end of the span is no gap.

    With ``actual``, the trace is a forecast: the run follows it, trains only in its windows and saves
    before its gaps, but the power goes when it goes in ``actual``. A gap that comes early interrupts a
    step or a save and loses the work since the last whole save; one that comes late wastes the time until
    it does; an outage is a gap that the forecast does not hold. Lost steps run again.

    Parameters
    ----------
    trace : Trace
    steps : int
        Training steps in all.
    step_s, save_s, restore_s, margin_s : int, float, Fraction or Decimal
        Durations [s], each rounded once to whole nanoseconds (half to even).
    save_every : int, optional
        Save also after each step whose number (from 1) is a multiple of this, against surprises.
    actual : Trace, optional
        What happened, of the same length as the forecast; by default what the forecast says.
    repeat : bool
        Whether a trace that is too short starts over at its end.

    Returns
    -------
    Plan

    Raises
    ------
    PlanError
        If a value cannot be used, or the run can never finish.

    Examples
    --------
    >>> from orbittrace_data import periodic_pause_trace
    >>> plan_run(periodic_pause_trace(every_s=10, pause_s=2), 100, step_s=3)
    <Plan under pause-10s-2s: 100 steps of 3 s in 34 windows, over after 399 s>
    """
    steps = _whole_steps(steps)
    step_ns, save_ns, restore_ns, margin_ns = (
        nanoseconds(value, name)
        for name, value in [
            ("step_s", step_s),
            ("save_s", save_s),
            ("restore_s", restore_s),
            ("margin_s", margin_s),
        ]
    )
    if step_ns == 0:
        raise PlanError(f"step_s must be at least a nanosecond, got {step_s!r}")
    cost = (step_ns, save_ns, restore_ns, margin_ns)
    if save_every is not None and (isinstance(save_every, bool) or operator.index(save_every) < 1):
        raise PlanError(f"save_every must be a whole number of steps of at least 1, got {save_every!r}")
    if actual is not None and not isinstance(actual, Trace):
        raise PlanError(f"actual must be a Trace, what happened, got {actual!r}")
    if actual is not None or save_every is not None:
        from .replay import replay

        return replay(trace, actual or trace, steps, cost, save_every or 0, repeat)

    start_ns, stop_ns, open_ended = tiled_windows(trace, 1)
    if repeat:
        start_ns, stop_ns, open_ended = tiled_windows(trace, _repeats_needed(trace, steps, cost))
        if open_ended and not trace.is_control:  # cut where the tiling ends, not where a gap begins
            start_ns, stop_ns, open_ended = start_ns[:-1], stop_ns[:-1], False
    capacity = _capacity(start_ns, stop_ns, open_ended, cost)
    if capacity.sum() < steps:
        raise never_finishes(trace, steps, int(capacity.sum()), cost, repeat)

    trains = np.flatnonzero(capacity)
    trains = trains[: int(np.searchsorted(np.cumsum(capacity[trains]), steps)) + 1]
    first_step = np.cumsum(capacity[trains]) - capacity[trains]
    step_count = np.minimum(capacity[trains], steps - first_step)
    gone_ns = start_ns - np.concatenate([[0], np.cumsum(stop_ns - start_ns)[:-1]])  # gaps before a window
    return Plan(
        trace.trace_id,
        steps,
        *cost,
        0,
        read_only(start_ns[trains]),
        read_only(stop_ns[trains]),
        read_only(first_step),
        read_only(step_count),
        read_only(np.diff(gone_ns[trains], prepend=0)),
    )


def tiled_windows(trace: Trace, repeats: int) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Return windows of the trace in a row [ns], and whether the last is open: it ends without a gap."""
    if repeats * trace.span_ms > MAX_NS // NS_PER_MS:
        years = repeats * trace.span_ms / 1000 / 86400 / 365.25
        raise PlanError(
            f"trace {trace.trace_id}: this run would need {years:.3g} years, and a plan holds at most 292: "
            "take fewer or shorter steps"
        )
    if repeats * (trace.gap_count + 1) > MAX_WINDOWS:
        raise PlanError(
            f"trace {trace.trace_id}: this run would need {repeats * (trace.gap_count + 1)} windows, and a "
            f"plan holds at most {MAX_WINDOWS}: take fewer or shorter steps"
        )
    tiled = trace.repeat(repeats)
    windows = tiled.windows * NS_PER_MS
    open_ended = bool(len(windows)) and int(tiled.windows[-1, 1]) == tiled.span_ms
    return windows[:, 0], windows[:, 1], open_ended


def _capacity(
    start_ns: NDArray[np.int64], stop_ns: NDArray[np.int64], open_ended: bool, cost: tuple[int, int, int, int]
) -> NDArray[np.int64]:
    """Count the steps that each window can hold when the run starts at the first of them."""
    step_ns, save_ns, restore_ns, margin_ns = cost
    room = stop_ns - start_ns - save_ns - margin_ns
    if open_ended:
        room[-1] += margin_ns
    fresh = np.maximum(room // step_ns, 0)
    capacity = np.maximum((room - restore_ns) // step_ns, 0)
    first = np.flatnonzero(fresh)[:1]
    capacity[: first[0] if first.size else len(capacity)] = 0
    capacity[first] = fresh[first]
    return capacity


def control_repeats(trace: Trace, run_ns: int) -> int:
    """Return how often a trace without gaps must be repeated to hold a run."""
    return max(1, -(-run_ns // (trace.span_ms * NS_PER_MS)))


def _repeats_needed(trace: Trace, steps: int, cost: tuple[int, int, int, int]) -> int:
    """Bound how often the trace must be repeated to hold the run."""
    step_ns, save_ns, restore_ns, margin_ns = cost
    if trace.is_control:
        return control_repeats(trace, steps * step_ns + save_ns)
    # From its second round on, a trace repeats exactly; what starts in that round is whole in three.
    start_ns, stop_ns, _ = tiled_windows(trace, 3)
    span_ns = trace.span_ms * NS_PER_MS
    second = (start_ns >= span_ns) & (start_ns < 2 * span_ns)
    room = (stop_ns - start_ns)[second].astype(object) - (save_ns + margin_ns + restore_ns)
    a_round = int(sum(max(int(ns) // step_ns, 0) for ns in room))
    return 3 if a_round == 0 else steps // a_round + 3


def never_finishes(
    trace: Trace, steps: int, holds: int, cost: tuple[int, int, int, int], repeat: bool
) -> PlanError:
    """Make the error of a run that cannot end; ``holds`` steps fit into the trace."""
    step_s, save_s, restore_s, margin_s = (f"{ns / NS_PER_S:.6g} s" for ns in cost)
    longest_s = int((trace.windows[:, 1] - trace.windows[:, 0]).max(initial=0)) / 1000
    needs = f"step {step_s}, save {save_s}, restore {restore_s}, margin {margin_s}"
    if repeat or holds == 0:
        return PlanError(
            f"trace {trace.trace_id}: a run of {steps} steps can never finish: the longest window lasts "
            f"{longest_s:.6g} s, and a window needs {needs}: make one of them shorter"
        )
    return PlanError(
        f"trace {trace.trace_id}: {holds} steps fit into its span once, {steps} were asked for ({needs}): "
        "let it repeat, take fewer steps, or take a longer trace"
    )


def nanoseconds(value: Any, name: str) -> int:
    """Round a duration in seconds to whole nanoseconds, exactly and once."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        raise PlanError(f"{name} must be a number of seconds, got {value!r}")
    if not math.isfinite(value) or value < 0:
        raise PlanError(f"{name} must be finite and not negative, got {value!r}")
    nanoseconds = round(Fraction(value) * NS_PER_S)
    if nanoseconds > MAX_DURATION_NS:
        raise PlanError(f"{name} must be at most 73 years, got {value} s")
    return nanoseconds


def _whole_steps(steps: Any) -> int:
    try:
        count = operator.index(steps)
    except TypeError:
        count = 0
    if isinstance(steps, bool) or not 1 <= count <= MAX_NS:
        raise PlanError(f"steps must be a whole number of at least 1, got {steps!r}")
    return count


def read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an int64 array that cannot be changed."""
    array = np.ascontiguousarray(array, np.int64)
    array.setflags(write=False)
    return array


def _like(given: ArrayLike, result: Any) -> Any:
    """Give a scalar back for a scalar."""
    return int(result) if np.ndim(given) == 0 else np.asarray(result)
