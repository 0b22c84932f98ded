"""What gaps would cost one's own run, and what the committed studies measured for the nearest case."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..cost import PlanCost
from ..errors import InputError
from ..plan import Plan, PlanError
from ..trace import Trace
from .claims import Cell, Runs, align, is_pause
from .protocol import by_setup
from .records import Row, read_rows
from .statistics import Estimate, estimate

RESULTS = Path(__file__).with_name("results")
STATE_BYTES_A_PARAMETER = 12  # fp32 weights, m and v of AdamW
NEAR = 2.0  # a measured case within this factor of one's own, in each respect, counts as measured


class AdviseError(InputError):
    """A case that nothing can be said about."""


@dataclass(frozen=True)
class Nearest:
    """What a study measured where gaps were most alike.

    The unit is the seed: for each seed the loss is averaged over the traces of one kind of orbit, as everywhere in the
    comparison (PROTOCOL.md, rule 4).

    Parameters
    ----------
    task : str
    parameters, steps : int
        Of the model, and of its training.
    traces : tuple of str
        Of one kind: low, medium or geosynchronous orbits, or a single schedule without an orbit.
    window_steps, delta : tuple of float
        Least and greatest number of steps between gaps, and of steps that a gap takes, of these traces.
    what : str
        The difference that was measured.
    difference : Estimate
        Of the final validation loss [nats], with its 95% interval over seeds.
    tuned : bool
        Whether no better learning rate may lie beyond the grid that was tried.
    measured : bool
        Whether one's own case lies within a factor of 2 of it in model size, window and gap.
    """

    task: str
    parameters: int
    steps: int
    traces: tuple[str, ...]
    window_steps: tuple[float, float]
    delta: tuple[float, float]
    what: str
    difference: Estimate
    tuned: bool
    measured: bool = False

    def sentence(self) -> str:
        """Return what was measured, and whether it is one's own case."""
        e, names = self.difference, ", ".join(self.traces)
        text = (
            f"Nearest that was measured ({self.task}, {self.parameters:,} parameters, {self.steps} steps under {names}: "
            f"{_range(self.window_steps)} steps a window, gaps of {_range(self.delta)} steps): {self.what} {e.mean:+.4f} "
            f"nats [{e.low:+.4f}, {e.high:+.4f}] of final validation loss, {e.seeds} seeds."
        )
        if not self.tuned:
            text += " Its best learning rate lies at the end of the grid that was tried: a better one may cost less."
        return text if self.measured else text + " Your case: not measured at this scale."


def _range(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.0f}" for end in ends)
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Advice:
    """What gaps cost under strong, and what is known beyond that.

    Parameters
    ----------
    plan : Plan or None
        Of as many steps as the trace's windows hold; None where no window holds a restore, a step and a
        save.
    cost : PlanCost or None
    save_s, restore_s : float
        Of all that is kept across a gap [s].
    state_loss : bool
        Whether the optimizer's state is lost at each gap.
    window_steps, delta : float
        Median steps of a window, and median length of a gap in steps.
    nearest : tuple of Nearest
    """

    trace_id: str
    plan: Plan | None
    cost: PlanCost | None
    save_s: float
    restore_s: float
    state_loss: bool
    window_steps: float
    delta: float
    nearest: tuple[Nearest, ...]

    def sentences(self) -> list[str]:
        """Return the advice in sentences."""
        said = []
        if self.plan is None or self.cost is None:
            return [
                f"No window of {self.trace_id} holds a restore of {self.restore_s:g} s, a step and a save of "
                f"{self.save_s:g} s: strong cannot run here. Make the state smaller, the disk faster or the step "
                "shorter."
            ]
        useful = self.cost.useful_ns
        said.append(
            f"Under strong, {self.trace_id} costs {self.cost.overhead:.2%} of the training time beyond the gaps: saving "
            f"{self.cost.save_ns / useful:.2%} ({self.save_s:.3g} s a gap), restoring {self.cost.restore_ns / useful:.2%}, "
            f"ends of windows too short for a step {self.cost.idle_ns / useful:.2%}. No step is lost: every gap is known "
            "before it comes."
        )
        said.append(
            f"A window holds {self.window_steps:.0f} steps and a gap takes {self.delta:.0f} (medians); wall-clock time is "
            f"{self.cost.wall_ns / useful:.2f} times the training time."
        )
        said.append(
            "The optimizer's state is lost at each gap, because it cannot be persisted."
            if self.state_loss
            else "State loss is not forced: the whole state is saved before each gap and restored after it, and strong then "
            "equals an uninterrupted run."
        )
        said += [near.sentence() for near in self.nearest]
        if not self.nearest:
            said.append("Beyond that, not measured at this scale.")
        return said


def advise(
    trace: Trace,
    step_s: float,
    state_gb: float,
    disk_gb_s: float,
    *,
    cannot_persist: bool = False,
    results: Sequence[Path] | None = None,
) -> Advice:
    """Say what gaps cost one's own run.

    Parameters
    ----------
    trace : Trace
    step_s : float
        Duration of a training step [s].
    state_gb : float
        Weights and optimizer state together [GB]; with AdamW in fp32, 12 bytes a parameter.
    disk_gb_s : float
        Rate at which they are written and read [GB/s].
    cannot_persist : bool
        Whether only the weights, a third of it, can be saved.
    results : sequence of Path, optional
        Result folders; by default the committed studies.

    Returns
    -------
    Advice

    Raises
    ------
    AdviseError
        If a number is not positive.

    Examples
    --------
    >>> from orbittrace_data import load_trace
    >>> advice = advise(load_trace("leo-25544"), step_s=0.8, state_gb=12, disk_gb_s=1, results=[])
    >>> advice.save_s, advice.state_loss, advice.window_steps > 1000
    (12.0, False, True)
    """
    for name, value in (("step_s", step_s), ("state_gb", state_gb), ("disk_gb_s", disk_gb_s)):
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise AdviseError(f"{name} must be a positive number, got {value!r}")
    kept_gb = state_gb / 3 if cannot_persist else state_gb
    save_s = kept_gb / disk_gb_s
    steps = max(1, int(trace.active_total_ms / 1000 / step_s))
    try:
        plan = trace.plan(steps, step_s=step_s, save_s=save_s, restore_s=save_s)
    except PlanError:
        return Advice(trace.trace_id, None, None, save_s, save_s, cannot_persist, 0.0, 0.0, ())
    windows, deltas = sorted(plan.step_count[:-1].tolist()), sorted(plan.delta[1:].tolist())
    window_steps = windows[len(windows) // 2] if windows else steps
    delta = deltas[len(deltas) // 2] if deltas else 0
    folders = committed() if results is None else tuple(results)
    parameters = state_gb * 1e9 / STATE_BYTES_A_PARAMETER
    found = nearest(folders, parameters, window_steps, delta, cannot_persist) if deltas else ()
    return Advice(
        trace.trace_id, plan, plan.cost(), save_s, save_s, cannot_persist, window_steps, delta, found
    )


def committed() -> tuple[Path, ...]:
    """Return the result folders that ship, in order of their dates."""
    return tuple(sorted(path.parent for path in RESULTS.glob("*/rows.parquet")))


def nearest(
    folders: Sequence[Path], parameters: float, window_steps: float, delta: float, state_loss: bool
) -> tuple[Nearest, ...]:
    """Find, for each kind of difference, the measured case that is nearest on logarithmic scales.

    Inside the range of a case's traces there is no distance to it; of two as near the one with more seeds is taken.
    """
    best: dict[str, tuple[tuple[float, int], Nearest]] = {}
    for case in _measured(tuple(folders)):
        if ("lost" in case.what) == state_loss:
            size = (case.parameters, case.parameters)
            asked = ((parameters, size), (window_steps, case.window_steps), (delta, case.delta))
            ratios = [_distance(value, ends) for value, ends in asked]
            rank = (sum(ratios), -case.difference.seeds)
            if case.what not in best or rank < best[case.what][0]:
                best[case.what] = rank, replace(case, measured=max(ratios) <= math.log(NEAR))
    return tuple(near for _, near in best.values())


def _distance(value: float, ends: tuple[float, float]) -> float:
    """Return how far a number lies from a range, as the logarithm of a ratio."""
    low, value, high = (math.log(max(x, 1)) for x in (ends[0], value, ends[1]))
    return max(low - value, value - high, 0.0)


@lru_cache(maxsize=4)
def _measured(folders: tuple[Path, ...]) -> tuple[Nearest, ...]:
    """Measure strong and weak against the uninterrupted run, for each task and each kind of trace."""
    found = []
    for setup, rows in by_setup(read_rows(folders)).items() if folders else ():
        runs = Runs(setup, rows)
        for method, persists in (("strong", "all"), ("weak", "all"), ("strong", "nothing")):
            kinds: dict[str, list[Row]] = defaultdict(list)
            for row in runs.select(method, persists):
                if row["gaps"]:
                    kinds[_kind(row["trace"])].append(row)
            lost = ", all optimizer state lost at each gap," if persists == "nothing" else ""
            for _, mine in sorted(kinds.items()):
                cell: Cell = defaultdict(dict)
                for row in mine:
                    cell[row["trace"]][row["seed"]] = row["validation_loss"]
                traces, seeds, values = align(cell, runs.cell("uninterrupted"))
                if len(seeds) < 2:
                    continue
                windows, deltas = ([row[name] for row in mine] for name in ("window_steps", "delta"))
                found.append(
                    Nearest(
                        setup.short_task,
                        json.loads(mine[0]["fingerprint"])["parameters"],
                        setup.steps,
                        traces,
                        (min(windows), max(windows)),
                        (min(deltas), max(deltas)),
                        f"{method}{lost} minus uninterrupted",
                        estimate(values[0] - values[1]),
                        not runs.untuned(method, persists, pauses=is_pause(mine[0])),
                    )
                )
    return tuple(found)


def _kind(trace: str) -> str:
    """Return what traces are averaged over: an orbit's height class; a schedule without an orbit stands alone."""
    height = trace.partition("-")[0]
    return height if height in ("leo", "meo", "geo") else trace
