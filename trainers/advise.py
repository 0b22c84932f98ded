"""What gaps would cost one's own run, and what the committed studies measured for the nearest case."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..cost import PlanCost
from ..errors import InputError
from ..plan import Plan, PlanError
from ..trace import Trace
from .claims import Runs
from .protocol import by_setup
from .records import read_rows
from .statistics import Estimate, estimate

RESULTS = Path(__file__).with_name("results")
STATE_BYTES_A_PARAMETER = 12  # fp32 weights, m and v of AdamW
NEAR = 2.0  # a measured case within this factor of one's own, in each respect, counts as measured


class AdviseError(InputError):
    """A case that nothing can be said about."""


@dataclass(frozen=True)
class Nearest:
    """What a study measured where gaps were most alike.

    Parameters
    ----------
    task : str
    parameters : int
    window_steps, delta : float
        Steps between gaps, and steps that a gap takes.
    what : str
        The difference that was measured.
    difference : Estimate
        Of the final validation loss [nats], with its 95% interval.
    measured : bool
        Whether one's own case lies within a factor of 2 of it in model size, window and gap.
    """

    task: str
    parameters: int
    window_steps: float
    delta: float
    what: str
    difference: Estimate
    measured: bool


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
            f"{self.cost.save_ns / useful:.2%} ({self.save_s:g} s a gap), restoring {self.cost.restore_ns / useful:.2%}, "
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
        for near in self.nearest:
            e = near.difference
            told = "" if near.measured else " Your case: not measured at this scale."
            said.append(
                f"Nearest that was measured ({near.task}, {near.parameters:,} parameters, {near.window_steps:.0f} steps a "
                f"window, gaps of {near.delta:.0f} steps): {near.what} {e.mean:+.4f} nats [{e.low:+.4f}, {e.high:+.4f}] of "
                f"final validation loss, {e.seeds} seeds.{told}"
            )
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
    """Find, for each kind of difference, the measured case that is nearest on logarithmic scales."""
    best: dict[str, tuple[float, Nearest]] = {}
    for size, case in _measured(tuple(folders)):
        if ("lost" in case.what) == state_loss:
            ratios = [
                abs(math.log(max(a, 1) / max(b, 1)))
                for a, b in ((size, parameters), (case.window_steps, window_steps), (case.delta, delta))
            ]
            near = replace(case, measured=max(ratios) <= math.log(NEAR))
            if case.what not in best or sum(ratios) < best[case.what][0]:
                best[case.what] = sum(ratios), near
    return tuple(near for _, near in best.values())


@lru_cache(maxsize=4)
def _measured(folders: tuple[Path, ...]) -> tuple[tuple[int, Nearest], ...]:
    """Measure every method under every trace against the uninterrupted run."""
    import json

    found = []
    if not folders:
        return ()
    for setup, rows in by_setup(read_rows(folders)).items():
        runs = Runs(setup, rows)
        whole = {row["seed"]: row["validation_loss"] for row in runs.select("uninterrupted")}
        cases = {
            (r["method"], r["persists"], r["trace"]) for r in runs.rows if r["gaps"] and not r["drift_at"]
        }
        for method, persists, trace in sorted(cases):
            mine = [
                row for row in runs.select(method, persists) if row["trace"] == trace and row["seed"] in whole
            ]
            if method not in ("strong", "weak") or persists not in ("all", "nothing") or len(mine) < 2:
                continue
            lost = ", all optimizer state lost at each gap," if persists == "nothing" else ""
            parameters = json.loads(mine[0]["fingerprint"])["parameters"]
            found.append(
                (
                    parameters,
                    Nearest(
                        setup.short_task,
                        parameters,
                        mine[0]["window_steps"],
                        mine[0]["delta"],
                        f"{method}{lost} minus uninterrupted",
                        estimate([row["validation_loss"] - whole[row["seed"]] for row in mine]),
                        False,
                    ),
                )
            )
    return tuple(found)
