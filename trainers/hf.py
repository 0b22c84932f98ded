"""For people who have a `transformers.Trainer`: a callback that lives with the gaps, and a schedule.

The Trainer's own resume is bit for bit, as long as its checkpoint is whole; but it says nothing when the
optimizer, the scheduler or the generators are missing, and takes a half-written newest checkpoint. So each
checkpoint is sealed with checksums when it is done, and a resume from one that is not whole is refused.
"""

import json
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..atomic import sync_tree, write_bytes
from ..errors import InputError
from ..plan import Plan
from .checkpoint import SUMS, CheckpointError, CheckpointWarning, ResumeError
from .clocks import RealClock, VirtualClock
from .crossing import cross
from .methods import Gap, Method, method_named
from .optimizer_state import Persists, restart_second_moment, slowest_decay
from .schedule import reentry, reentry_length, warmup_cosine
from .tensor_files import checksum_of

FACTS = "availability.json"
NEEDED = ("optimizer.pt", "scheduler.pt", "trainer_state.json", FACTS)


class TrainerError(InputError):
    """A Trainer that cannot be paused and resumed without a difference."""


class EffectiveTimeLR(LRScheduler):
    """A learning rate indexed on active time, or on whatever clock the method reads.

    It is a pure function of the steps done, so a resume needs nothing but their number; its state carries
    the plan's digest, and another plan's state is refused.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Its learning rates are the peaks.
    plan : Plan
    method : str or Method
        ``strong`` reads active time.
    schedule : callable, optional
        ``schedule(index, horizon)`` returns the share of the peak; by default linear LR warm-up and half a
        cosine.
    warmup, final : float
        Of the default schedule: share of the run spent on LR warm-up, share of the peak at the horizon.

    Examples
    --------
    >>> from orbittrace_data import Trace
    >>> plan = Trace("demo", 10_000, [[4_000, 10_000]]).plan(8, step_s=1)
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = EffectiveTimeLR(optimizer, plan, "weak", schedule=lambda index, horizon: 1 / (1 + index))
    >>> rates = []
    >>> for _ in range(6):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.333, 0.25, 0.091, 0.083]
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        plan: Plan,
        method: str | Method = "strong",
        *,
        schedule: Callable[[int, int], float] | None = None,
        warmup: float = 0.1,
        final: float = 0.0,
    ):
        self.plan, self._clock = plan, VirtualClock(plan)
        self.method = method_named(method) if isinstance(method, str) else method
        warmup_steps = round(warmup * plan.steps)
        self.schedule = schedule or (lambda k, horizon: warmup_cosine(k, horizon, warmup_steps, final))
        super().__init__(optimizer)

    def get_lr(self) -> list[float | torch.Tensor]:
        """Return the learning rate of each parameter group for the next step."""
        plan, method = self.plan, self.method
        step = min(self.last_epoch, plan.steps - 1)
        index = step if method.clock == "active" else plan.wall_step(step)
        horizon = plan.steps if method.horizon == "active" else plan.wall_horizon
        factor = self.schedule(index, horizon)
        gap = self._clock.gap_before(int(plan.first_step[plan.window_of(step)]))
        if gap is not None and method.reenter_steps:
            length = reentry_length(method.reenter_steps, slowest_decay(self.optimizer), gap.delta)
            factor *= reentry(step - gap.step, length)
        if gap is not None and method.lr_factor is not None:
            factor *= method.lr_factor(step - gap.step, gap.delta)
        return [base * factor for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """Return plain values: position, peaks, and what they belong to."""
        return {
            "last_epoch": self.last_epoch,
            "base_lrs": [float(lr) for lr in self.base_lrs],
            "plan": self.plan.digest,
            "method": self.method.name,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a position up.

        Raises
        ------
        ResumeError
            If it is another plan's or another method's.
        """
        for name, now in (("plan", self.plan.digest), ("method", self.method.name)):
            if state_dict.get(name) != now:
                raise ResumeError(Path("the scheduler's state"), name, state_dict.get(name), now)
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], list(state_dict["base_lrs"])
        self._last_lr = self.get_lr()


class AvailabilityCallback(TrainerCallback):
    """Make a Trainer live with the gaps of a plan: save, pause, and do what the method says.

    At each gap the Trainer saves a checkpoint, which is sealed with checksums; then the gap passes (in
    virtual time at once, in real time by waiting, or by the end of the process); then the optimizer's
    state is lost or edited as the regime and the method say. A resume from a checkpoint that is not whole,
    or that belongs to another plan, is refused: take `newest_checkpoint`.

    Parameters
    ----------
    plan : Plan
        Of as many steps as the Trainer's ``max_steps``.
    method : str or Method
        The same as the schedule's. ``weak`` goes with virtual time only.
    persists : {"all", "m", "v", "nothing"}
        What of the optimizer's state outlives a gap.
    clock : RealClock, optional
        For real time: `clocks.real_clock`. By default virtual time.
    at_gap : callable, optional
        Called with each gap when the checkpoint is sealed.
    """

    def __init__(
        self,
        plan: Plan,
        method: str | Method = "strong",
        *,
        persists: Persists = "all",
        clock: RealClock | None = None,
        at_gap: Callable[[Gap], None] | None = None,
    ):
        self.plan = plan
        self.method = method_named(method) if isinstance(method, str) else method
        self.persists: Persists = persists
        self.at_gap = at_gap
        self.clock = VirtualClock(plan) if clock is None else clock
        self._ahead: Gap | None = None  # a gap before the step that comes next
        self._restart_v = False
        self._saving_since_ns = time.monotonic_ns()
        if self.method.fresh_order or self.method.recalibrate_batches:
            raise TrainerError(f"{self.method.name} needs the data by position: train it with trainers.loop")
        on_plan = self.method.clock == "wall" or self.method.reenter_steps or self.method.lr_factor
        if clock is not None and on_plan:
            raise TrainerError(
                f"{self.method.name} reads a schedule off the plan, which real time does not follow: use "
                "strong or weak+clock+reconstruct, or virtual time"
            )

    def _identity(self) -> dict[str, Any]:
        return {"plan": self.plan.digest, "method": self.method.name, "persists": self.persists}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Check that the Trainer can be resumed bit for bit, and that this resume is from a whole state."""
        if state.max_steps != self.plan.steps:
            raise TrainerError(
                f"the plan has {self.plan.steps} steps and the Trainer {state.max_steps}: give "
                "max_steps=plan.steps"
            )
        for flag in ("save_only_model", "ignore_data_skip", "enable_jit_checkpoint"):
            if getattr(args, flag, False):
                raise TrainerError(f"with {flag}=True a resumed run is another run: set it to False")
        if args.save_strategy == "best":  # the Trainer decides on saves after this callback was asked
            raise TrainerError(
                'with save_strategy="best" the Trainer would train through the gaps without a checkpoint: '
                'set it to "steps", "epoch" or "no"'
            )
        if state.global_step:
            path = Path(str(args.output_dir), f"checkpoint-{state.global_step}")
            if state.global_step >= self.plan.steps:  # the Trainer would train one step more
                raise TrainerError(
                    f"{path} is the end of the run: its {self.plan.steps} steps are done, load the model from there"
                )
            facts = check_sealed(path)
            for name, now in self._identity().items():
                if facts.get(name) != now:
                    raise ResumeError(path, name, facts.get(name), now)
            self.clock.resume(facts["clock"])
            self._ahead = self.clock.gap_before(state.global_step)
        self.clock.wait(lambda: False)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Come out of a gap: what was lost, and what the method does about it."""
        self.clock.read(state.global_step)
        if self._ahead is not None:
            optimizer = _bare(kwargs["optimizer"])
            cross(self._ahead, self.method, self.persists, kwargs["model"], optimizer)
            self._restart_v = self.persists == "m"
            self._ahead = None

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Refill a second moment that was lost while the first one persisted."""
        if self._restart_v:
            restart_second_moment(_bare(kwargs["optimizer"]))
            self._restart_v = False

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ask for a checkpoint when the window is over."""
        if state.global_step < self.plan.steps:
            self._ahead = self.clock.gap_before(state.global_step)
            control.should_save = control.should_save or self._ahead is not None
        self._saving_since_ns = time.monotonic_ns()

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Seal the checkpoint, and let the gap pass if one is ahead."""
        if state.is_world_process_zero:
            path = Path(str(args.output_dir), f"checkpoint-{state.global_step}")
            seal(path, self._identity() | {"clock": self.clock.state()})
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        self.clock.saved(time.monotonic_ns() - self._saving_since_ns)
        if self._ahead is not None:
            if self.at_gap is not None:
                self.at_gap(self._ahead)
            self.clock.wait(lambda: False)


def _bare(optimizer: Any) -> torch.optim.Optimizer:
    """Return the optimizer that accelerate has wrapped."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def seal(path: Path, facts: dict[str, Any]) -> None:
    """Make a Trainer's checkpoint durable and write its checksums, last."""
    (path / SUMS).unlink(missing_ok=True)  # of an earlier save into the same folder
    write_bytes(path / FACTS, json.dumps(facts, indent=1).encode())
    sync_tree(path)
    files = sorted(p for p in path.rglob("*") if p.is_file())
    sums = "".join(f"{checksum_of(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
    write_bytes(path / SUMS, sums.encode())


def check_sealed(path: Path) -> dict[str, Any]:
    """Check a Trainer's checkpoint against its checksums.

    Returns
    -------
    dict
        What `AvailabilityCallback` wrote into it.

    Raises
    ------
    CheckpointError
        If a file that a resume needs is missing, truncated or changed.
    """
    try:
        lines = (path / SUMS).read_text().splitlines()
    except OSError:
        raise CheckpointError(
            f"{path} is not whole: it was never sealed with {SUMS}: resume from newest_checkpoint(...)"
        ) from None
    sums = {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines)}
    weights = [name for name in sums if name.endswith((".safetensors", ".bin"))]
    generators = [name for name in sums if re.fullmatch(r"rng_state(_\d+)?\.pth", name)]
    lacking = [name for name in NEEDED if name not in sums]
    lacking += ["the weights"] * (not weights) + ["rng_state.pth"] * (not generators)
    if lacking:
        raise CheckpointError(f"{path} is not whole: it was sealed without {', '.join(lacking)}")
    for name, expected in sums.items():
        if not (path / name).is_file() or checksum_of(path / name) != expected:
            raise CheckpointError(f"{path} is not whole: {name} is missing or was changed")
    return json.loads((path / FACTS).read_text())


def newest_checkpoint(output_dir: str | Path) -> str | None:
    """Return the newest whole checkpoint of a Trainer, for ``trainer.train(resume_from_checkpoint=...)``.

    Parameters
    ----------
    output_dir : path
        The Trainer's.

    Returns
    -------
    str or None
        None where the run has not saved yet. Broken ones are skipped with a warning.

    Raises
    ------
    CheckpointError
        If there are sealed checkpoints and not one of them is whole.
    """
    found = [p for p in Path(output_dir).glob("checkpoint-*") if re.fullmatch("checkpoint-[0-9]+", p.name)]
    found.sort(key=lambda p: int(p.name.rpartition("-")[2]), reverse=True)
    sealed = False
    for path in found:
        sealed = sealed or (path / SUMS).exists()
        try:
            check_sealed(path)
        except CheckpointError as error:
            warnings.warn(f"{error}; an older one is tried", CheckpointWarning, stacklevel=2)
        else:
            return str(path)
    if sealed:
        raise CheckpointError(f"{output_dir} holds {len(found)} checkpoints, and none is whole")
    return None
