"""Where the time of a run goes: useful steps, steps run twice, saves, restores, margins, idle time and gaps."""

from dataclasses import dataclass, fields

import numpy as np

from .plan import Plan


@dataclass(frozen=True)
class PlanCost:
    """The wall-clock time of a run, divided without rest [ns].

    Parameters
    ----------
    useful_ns : int
        Steps that were kept.
    redone_ns : int
        Steps that were lost and run again.
    save_ns, restore_ns : int
        Whole saves and restores.
    margin_ns : int
        Time left free before gaps, up to the plan's margin at each, where no step was lost.
    idle_ns : int
        Available time besides: ends of windows too short for a step, windows passed over, gaps that did not
        come, and steps and saves that were cut off.
    gap_ns : int
        Unavailable time.

    Examples
    --------
    >>> from orbittrace_data import Trace
    >>> trace = Trace("demo", 10_000, gaps=[[4_000, 7_000]])
    >>> cost = trace.plan(4, step_s=1, save_s=0.5, restore_s=0.5).cost()
    >>> cost.active_ns / 1e9, cost.idle_ns / 1e9, cost.overhead
    (6.0, 0.5, 0.5)
    """

    useful_ns: int
    redone_ns: int
    save_ns: int
    restore_ns: int
    margin_ns: int
    idle_ns: int
    gap_ns: int

    @property
    def wall_ns(self) -> int:
        """From the trace's start to the end of the last save [ns]."""
        return sum(getattr(self, column.name) for column in fields(self))

    @property
    def active_ns(self) -> int:
        """Available time of it [ns]."""
        return self.wall_ns - self.gap_ns

    @property
    def overhead(self) -> float:
        """Available time beyond the useful steps, as a share of them."""
        return (self.active_ns - self.useful_ns) / self.useful_ns


def plan_cost(plan: Plan) -> PlanCost:
    """Divide the wall-clock time of a run.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    PlanCost
    """
    saved = plan.first_step + plan.kept_count
    saves = (saved > plan.first_step).astype(np.int64)
    if plan.save_every:  # the one at a window's end is missing or not one more where its number is a multiple
        saves = -(-saved // plan.save_every) - plan.first_step // plan.save_every
        saves = np.where(saved > plan.first_step, saves, 0)
    useful_ns, redone_ns = plan.steps * plan.step_ns, int(plan.lost_count.sum()) * plan.step_ns
    save_ns = int(saves.sum()) * plan.save_ns
    restore_ns = int((plan.first_step > 0).sum()) * plan.restore_ns
    free_ns = plan.window_stop_ns - plan.train_stop_ns - plan.save_ns
    held = (plan.lost_count == 0) & (np.arange(plan.window_count) < plan.window_count - 1)
    margin_ns = int(np.clip(free_ns, 0, plan.margin_ns)[held].sum())
    gap_ns = int(plan.gap_ns.sum())
    idle_ns = plan.finish_ns - gap_ns - useful_ns - redone_ns - save_ns - restore_ns - margin_ns
    return PlanCost(useful_ns, redone_ns, save_ns, restore_ns, margin_ns, idle_ns, gap_ns)
