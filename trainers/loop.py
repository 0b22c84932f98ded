"""The training loop. It reads from top to bottom, and all methods go through the same lines."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch

from . import checkpoint, parallel
from .clocks import Reading, VirtualClock
from .config import Config
from .crossing import cross
from .determinism import fingerprint, pinned, seed_everything, tensors_sha256, usable_device
from .log import Log
from .methods import Gap, Method
from .optimizer_state import restart_second_moment
from .order import uniform_bits
from .schedule import reentry, warmup_cosine
from .tasks import Task

FLUSH_EVERY = 50  # steps between two fetches of logged values from the device
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Clock(Protocol):
    """What the loop asks of a clock (`clocks.VirtualClock`, `clocks.RealClock`)."""

    def gap_before(self, step: int) -> Gap | None: ...  # noqa: D102
    def read(self, step: int) -> Reading: ...  # noqa: D102
    def wait(self, should_stop: Callable[[], bool]) -> None: ...  # noqa: D102
    def saved(self, duration_ns: int) -> None: ...  # noqa: D102
    def state(self) -> dict[str, Any]: ...  # noqa: D102
    def resume(self, state: Mapping[str, Any]) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Parameters
    ----------
    config : Config
    steps : int
        Steps done; fewer than the horizon if the run was stopped.
    finished : bool
    measures : dict of str to float
        The task's evaluation at the end; empty if it was stopped.
    log : pyarrow.Table
        One row a step: step, window, Delta of the gap before it, wall-clock and active time [ns], lr, loss,
        grad_norm, and the measures of evaluations along the way.
    weights_sha256, state_sha256 : str
        Of weights and buffers; of these and the optimizer's state.
    fingerprint : dict
        Software, device and numerics (`determinism.fingerprint`).
    resumed_from : int
        Step at which this call began.
    train_s : float
        Time spent in this call, evaluations and saves left out [s].
    """

    config: Config
    steps: int
    finished: bool
    measures: dict[str, float]
    log: pa.Table
    weights_sha256: str
    state_sha256: str
    fingerprint: dict[str, Any]
    resumed_from: int
    train_s: float


def train(
    config: Config,
    folder: Path | None = None,
    *,
    clock: Clock | None = None,
    keep: int = 2,
    rebase: bool = False,
    at_gap: Callable[[Gap], None] | None = None,
    on_step: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train one run to its end, or from where its folder says it was.

    Parameters
    ----------
    config : Config
        Decides every bit of the run on a given machine; the other parameters decide none.
    folder : Path, optional
        Where log and checkpoints go. Without one nothing is written, and gaps pass in memory.
    clock : Clock, optional
        By default virtual time under ``config.plan``.
    keep : int
        Checkpoints to keep.
    rebase : bool
        Whether to resume although the checkpoint belongs to another run.
    at_gap : callable, optional
        Called with each gap when the state is safe on disk and the window is over.
    on_step : callable, optional
        Called with the number of steps done after each step.
    should_stop : callable, optional
        Asked after each step; when it says yes, the state is saved and the call returns.

    Returns
    -------
    Result

    Raises
    ------
    ResumeError
        If the folder's checkpoint belongs to another run.
    CheckpointError
        If it is broken and there is no older one.
    """
    device = usable_device(config.device)
    with pinned(config.threads), parallel.process_group(device):
        # What is trained, by which method, under which plan.
        task, method, plan = config.resolved_task, config.resolved_method, config.plan
        clock = VirtualClock(plan) if clock is None else clock
        rank, world = parallel.rank(), parallel.world_size()
        seed_everything(config.seed)
        model = task.model().to(device)
        optimizer = task.optimizer(model.parameters(), task.lr)
        scaler = torch.amp.GradScaler(device.type) if config.precision == "fp16" else None
        amp = nullcontext()
        if config.precision in AUTOCAST:
            amp = torch.autocast(device.type, AUTOCAST[config.precision])
        if rank:
            torch.manual_seed(config.seed + rank)  # the same weights, but other dropout
        peaks = [group["lr"] for group in optimizer.param_groups]
        identity = config.identity() | fingerprint(model, device, world)
        order_seed = config.seed if config.order_seed is None else config.order_seed

        # Where the run stands: the step to do next, the gaps behind it, and the ramp after the last one.
        step, gaps, gap_step, ramp, delta, log_rows = 0, 0, 0, 0, 0, 0
        path = None
        if folder is not None:
            found = checkpoint.newest(folder / "checkpoints")
            if found is not None:
                path, state = found
                if not rebase:
                    checkpoint.check_identity(path, state.identity, identity)
                checkpoint.restore(path, state, model, optimizer, scaler, rank)
                step, log_rows = state.step, state.log_rows
                gaps, gap_step, ramp, delta = (
                    state.schedule[name] for name in ("gaps", "gap_step", "ramp", "delta")
                )
                clock.resume(state.clock)
        log = Log(folder if rank == 0 else None, log_rows)
        data_seed = seed_for(order_seed, gaps, method)
        resumed_from, saved_at = step, step if path is not None else -1
        train_s = 0.0

        def save() -> None:
            nonlocal saved_at
            log.flush()
            saved_at = step
            if folder is None:
                return
            began_ns = time.monotonic_ns()
            generators = parallel.gather(checkpoint.rng_state())
            if rank == 0:
                position = {
                    "gaps": gaps,
                    "gap_step": gap_step,
                    "ramp": ramp,
                    "delta": delta,
                    "lr": [group["lr"] for group in optimizer.param_groups],
                }
                state = checkpoint.State(
                    step,
                    model.state_dict(),
                    optimizer.state_dict(),
                    schedule=position,
                    log_rows=len(log.rows),
                    clock=clock.state(),
                    identity=identity,
                    scaler=None if scaler is None else scaler.state_dict(),
                    rng={f"{r}.{name}": s for r, g in enumerate(generators) for name, s in g.items()},
                )
                checkpoint.save(folder / "checkpoints", state, keep)
            parallel.barrier()
            clock.saved(time.monotonic_ns() - began_ns)

        model.train()
        stopped = False
        while step < plan.steps and not stopped:
            # A gap: save, let it pass, and do to the state what the regime and the method say.
            gap = clock.gap_before(step)
            if gap is not None:
                if step > resumed_from:  # a resumed run stands behind the gap's save already
                    if saved_at != step:
                        save()
                    if at_gap is not None:
                        at_gap(gap)
                clock.wait(should_stop)
                stopped = parallel.any_process(should_stop())
                if stopped:
                    break
                if step:
                    gaps, gap_step, delta = gaps + 1, step, gap.delta
                    data_seed = seed_for(order_seed, gaps, method)
                    ramp = cross(gap, method, config.regime.persists, model, optimizer)
                    if method.recalibrate_batches:
                        recalibrate(model, task, data_seed, step, method.recalibrate_batches)

            # One step: learning rate, gradients, update.
            began = time.monotonic()
            reading = clock.read(step)
            index = step if method.clock == "active" else reading.wall_step
            horizon = plan.steps if method.horizon == "active" else plan.wall_horizon
            factor = warmup_cosine(index, horizon, round(task.warmup * plan.steps), task.final)
            factor *= reentry(step - gap_step, ramp)
            if gaps and method.lr_factor is not None:
                factor *= method.lr_factor(step - gap_step, delta)
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            losses = []
            for micro in range(config.accumulate):
                place = (step * config.accumulate + micro) * world + rank
                batch = to_device(task.batch(data_seed, place), device)
                with amp:
                    loss = task.loss(model, batch) / config.accumulate
                (loss if scaler is None else scaler.scale(loss)).backward()
                losses.append(loss.detach())
            if scaler is not None:
                scaler.unscale_(optimizer)
            parameters = [p for p in model.parameters() if p.grad is not None]
            gradients = [p.grad for p in parameters if p.grad is not None]
            loss_sum = torch.stack(losses).sum()
            parallel.average([loss_sum, *gradients])
            limit = math.inf if task.clip_norm is None else task.clip_norm
            norm = torch.nn.utils.clip_grad_norm_(parameters, limit)
            if gap is not None and step and config.regime.persists == "m":
                restart_second_moment(optimizer)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad(set_to_none=True)
            log.append(
                step=step,
                window=gaps,
                delta=delta,
                wall_ns=reading.wall_ns,
                active_ns=reading.active_ns,
                lr=optimizer.param_groups[0]["lr"],
                loss=loss_sum,
                grad_norm=norm,
            )
            step += 1
            train_s += time.monotonic() - began

            # Outside the clocks: evaluation, progress, checkpoints against failures, being stopped.
            if config.evaluate_every and step % config.evaluate_every == 0 and step < plan.steps:
                log.rows[-1] |= evaluate(task, model)
            if step % FLUSH_EVERY == 0:
                log.flush()
            if on_step is not None:
                on_step(step)
            stopped = parallel.any_process(should_stop())
            if config.save_every and step % config.save_every == 0 and step < plan.steps:
                save()

        # The end: keep the state, then measure.
        finished = step == plan.steps
        if saved_at != step:
            save()
        measures = evaluate(task, model) if finished else {}
        log.flush()
        if folder is not None and rank == 0:
            log.write_parquet()
        state_now = {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}
        return Result(
            config,
            step,
            finished,
            measures,
            log.table(),
            tensors_sha256(state_now["model"]),
            tensors_sha256(state_now),
            fingerprint(model, device, world),
            resumed_from,
            train_s,
        )


def seed_for(order_seed: int, gaps: int, method: Method) -> int:
    """Return the seed of the data order: another one after each gap for methods with a fresh order."""
    if not method.fresh_order or not gaps:
        return order_seed
    return int(uniform_bits(order_seed, np.array([gaps]), stream=2)[0])


@torch.no_grad()
def recalibrate(model: torch.nn.Module, task: Task, data_seed: int, step: int, batches: int) -> None:
    """Take the running statistics of batch normalisation anew over the next batches."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    device = next(model.parameters()).device
    momenta = [norm.momentum for norm in norms]
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average
        norm.train()
    for place in range(step, step + batches):
        task.loss(model, to_device(task.batch(data_seed, place), device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train()


@torch.no_grad()
def evaluate(task: Task, model: torch.nn.Module) -> dict[str, float]:
    """Evaluate without leaving a trace in the training: mode and generators are put back."""
    before = checkpoint.rng_state()
    model.eval()
    measures = {name: float(value) for name, value in task.evaluate(model).items()}
    model.train()
    checkpoint.set_rng_state(before)
    return measures


def to_device(batch: Any, device: torch.device) -> Any:
    """Move a tensor, or tensors in tuples, lists and dicts."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    return type(batch)(to_device(value, device) for value in batch)
