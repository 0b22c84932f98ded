"""``orbittrace train``: one run of one method under one trace."""

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .app import app, find_own_modules

if TYPE_CHECKING:
    from ..plan import Plan
    from ..trainers.config import Config
    from ..trainers.loop import Result

STOPPED = 130


@app.command()
def train(
    trace: Annotated[str, typer.Option(help="leo-25544, duty:60m/35m, pause:10s/2s, or a file.")],
    actual: Annotated[
        str | None,
        typer.Option(help="What happens, where --trace is a forecast that misses; as leo-25544~20s#0."),
    ] = None,
    task: Annotated[
        str,
        typer.Option(help="gpt2-tiny, resnet-mnist, gpt2-small, resnet18-cifar10, or module:function."),
    ] = "gpt2-tiny",
    method: Annotated[
        str,
        typer.Option(
            help="uninterrupted, strong, strong-fresh-order, weak, weak-wall-horizon, aat, "
            "weak+PILLAR+... (clock, reconstruct, reenter), or module:function."
        ),
    ] = "strong",
    persists: Annotated[
        str, typer.Option(help="What of the optimizer's state outlives a gap: all, m, v or nothing.")
    ] = "all",
    drift_at: Annotated[
        str, typer.Option(help="Steps at which the data change to another distribution, as 100,200.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Of the weights, of dropout and of the data order.")] = 0,
    order_seed: Annotated[int | None, typer.Option(help="Of the data order alone.")] = None,
    steps: Annotated[int | None, typer.Option(help="Length of the run; by default the task's.")] = None,
    step_s: Annotated[
        float | None, typer.Option(help="Nominal duration of a step, in seconds; by default the task's.")
    ] = None,
    save_s: Annotated[float, typer.Option(help="Duration of a save, in seconds.")] = 0.0,
    restore_s: Annotated[float, typer.Option(help="Duration of a restore, in seconds.")] = 0.0,
    margin_s: Annotated[float, typer.Option(help="Time left free before each gap, in seconds.")] = 0.0,
    save_every: Annotated[int, typer.Option(help="Steps between saves inside a window; 0: none.")] = 0,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate; by default the task's.")] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of the run spent on LR warm-up.")] = None,
    evaluate_every: Annotated[int, typer.Option(help="Steps between evaluations; 0: at the end.")] = 0,
    accumulate: Annotated[int, typer.Option(help="Batches whose gradients make one step.")] = 1,
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16 (autocast).")] = "fp32",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    threads: Annotated[int, typer.Option(help="CPU threads; other numbers give other bits.")] = 1,
    data: Annotated[str | None, typer.Option(help="Data set of a task that loads one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs.")] = Path("runs"),
    restart: Annotated[
        str, typer.Option(help="none, or process: kill a child process at each gap and resume from disk.")
    ] = "none",
    real_time: Annotated[
        str | None, typer.Option(help="Wait the gaps out; t = 0 of the trace is now, or by its own dates.")
    ] = None,
    rebase: Annotated[bool, typer.Option(help="Resume although the checkpoint is another run's.")] = False,
    source: Annotated[str | None, typer.Option(help="A release folder or a Hub id.")] = None,
    version: Annotated[str | None, typer.Option(help="The data version that is wanted.")] = None,
) -> int:
    """Train under a trace; interrupted, it saves, and the same command resumes."""
    from ..errors import InputError
    from ..trace_spec import resolve_trace

    try:
        from ..trainers.config import Config
    except ModuleNotFoundError as missing:
        raise InputError(f"training needs {missing.name}: pip install 'orbittrace-data[trainers]'") from None
    from ..trainers import parallel
    from ..trainers.checkpoint import checkpoints, step_of
    from ..trainers.loop import train as train_run
    from ..trainers.methods import Regime
    from ..trainers.restart import train_with_restarts
    from ..trainers.run_folder import opened, read_result, run_name, write_result

    if restart not in ("none", "process"):
        raise InputError(f"--restart is none or process, got {restart!r}")
    if restart == "process" and (real_time or parallel.launched()):
        raise InputError("--restart process goes neither with --real-time nor with torchrun: leave one out")
    find_own_modules()
    config = Config(
        task,
        resolve_trace(trace, source=source, version=version),
        method,
        Regime(persists, _steps(drift_at)),  # type: ignore[arg-type] - Regime checks what persists
        seed=seed,
        order_seed=order_seed,
        steps=steps,
        step_s=step_s,
        lr=lr,
        warmup=warmup,
        save_s=save_s,
        restore_s=restore_s,
        margin_s=margin_s,
        save_every=save_every,
        actual=None if actual is None else resolve_trace(actual, source=source, version=version),
        evaluate_every=evaluate_every,
        accumulate=accumulate,
        precision=precision,  # type: ignore[arg-type] - Config checks it
        device=device,
        threads=threads,
        data=data,
    )
    folder = out / (run_name(config) + "-real-time" * (real_time is not None))
    finished = read_result(folder, config)
    if finished is not None:
        print(_result_line(finished, folder, real_time is not None))
        return 0
    clock = None if real_time is None else _real_clock(config, real_time)
    _note(describe_plan(config.plan))
    _note(describe_bits(config))
    saved = checkpoints(folder / "checkpoints")
    if saved:
        _note(f"resuming in {folder}, which was saved after step {step_of(saved[-1])}")

    with stopping_on_signals() as should_stop, shown(config.plan) as on_step, warnings_as_notes():
        if restart == "process":
            with opened(folder, config):
                pass
            result = train_with_restarts(
                config, folder, rebase=rebase, on_step=on_step, should_stop=should_stop
            )
        elif parallel.launched_rank():
            result = train_run(config, folder, rebase=rebase, should_stop=should_stop)
        else:
            with opened(folder, config):
                result = train_run(
                    config, folder, clock=clock, rebase=rebase, on_step=on_step, should_stop=should_stop
                )
                if result.finished:
                    write_result(folder, result)
    if result is None or not result.finished:
        at = "" if result is None else f" after step {result.steps}"
        _note(f"stopped{at}; everything is saved in {folder}: run the same command again to resume")
        return STOPPED
    if not parallel.launched_rank():
        print(_result_line(result, folder, real_time is not None))
    return 0


def _steps(text: str) -> tuple[int, ...]:
    from ..errors import InputError

    try:
        return tuple(int(step) for step in text.split(",")) if text else ()
    except ValueError:
        raise InputError(f"--drift-at takes steps such as 100,200; got {text!r}") from None


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _real_clock(config: "Config", anchor: str):
    from ..errors import InputError
    from ..trainers.clocks import real_clock
    from ..trainers.parallel import launched

    if launched():
        raise InputError("--real-time does not go with torchrun: the processes' clocks may disagree")
    if not config.resolved_method.interrupted:
        raise InputError("--real-time waits out gaps, and the method uninterrupted has none: take another")
    return real_clock(config.trace, config.plan, anchor)  # type: ignore[arg-type] - real_clock checks the anchor


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show a warning, such as that of a broken checkpoint, as a sentence and without the line of code."""
    from ..trainers.checkpoint import CheckpointWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckpointWarning)
        warnings.showwarning = lambda message, *_: _note(f"warning: {message}")
        yield


@contextmanager
def stopping_on_signals() -> Iterator[Callable[[], bool]]:
    """Turn SIGINT and SIGTERM into a wish that the run reads after each step; a second one ends it hard."""
    asked: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        _note("stopping after this step, once all is saved (again: at once, from the last checkpoint)")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shown(plan: "Plan") -> Iterator[Callable[[int], None]]:
    """Show a run's progress with its windows and gaps: a bar on a terminal, plain lines elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(stderr=True), refresh_per_second=8) as live:
            yield lambda step: live.update(Text(f"{strip(plan, step)} {whereabouts(plan, step)}"))
        return

    import time

    said = time.monotonic()

    def on_step(step: int) -> None:
        nonlocal said
        if time.monotonic() - said >= 10:
            said = time.monotonic()
            _note(whereabouts(plan, step))

    yield on_step


def strip(plan: "Plan", done: int, width: int = 50) -> str:
    """Draw a run as a line: steps done, steps to do, and a bar at each gap.

    Examples
    --------
    >>> from orbittrace_data import periodic_pause_trace
    >>> strip(periodic_pause_trace(10, 2).plan(40, step_s=1), 15, width=20)
    '━━━━━|━───|────|────'
    """
    at = {int(first) * width // plan.steps for first in plan.first_step[1:]}
    gaps = at if len(at) < width / 2 else set()  # too many to tell apart are not drawn
    full = done * width // plan.steps
    return "".join("|" if k in gaps else "━" if k < full else "─" for k in range(width))


def whereabouts(plan: "Plan", done: int) -> str:
    """Say where a run is.

    Examples
    --------
    >>> from orbittrace_data import periodic_pause_trace
    >>> whereabouts(periodic_pause_trace(10, 2).plan(40, step_s=1), 15)
    'step 15 of 40, window 2 of 4, gap of 2 s in 5 steps'
    """
    text = f"step {done} of {plan.steps}"
    if done >= plan.steps:
        return text
    window = int(plan.window_of(done))
    text += f", window {window + 1} of {plan.window_count}"
    if window + 1 < plan.window_count:
        left = int(plan.first_step[window + 1]) - done
        text += f", gap of {duration(int(plan.gap_ns[window + 1]) / 1e9)} in {left} steps"
    return text


def duration(seconds: float) -> str:
    """Write a duration for people.

    Examples
    --------
    >>> duration(2), duration(2100), duration(36000)
    ('2 s', '35 min', '10 h')
    """
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86400:.3g} days"


def describe_plan(plan: "Plan") -> str:
    """Say how many windows and gaps a run meets and what Delta is."""
    gaps = plan.gap_ns[1:]
    text = f"{plan.steps} steps of {plan.step_ns / 1e9:g} s in {plan.window_count} window{'s' * (plan.window_count > 1)}"
    if not len(gaps):
        return f"{plan.steps} steps of {plan.step_ns / 1e9:g} s, and no gap"
    low, high = (duration(int(ns) / 1e9) for ns in (gaps.min(), gaps.max()))
    lengths = low if low == high else f"{low} to {high}"
    deltas = sorted({int(plan.delta[1:].min()), int(plan.delta[1:].max())})
    lost = int(plan.lost_count.sum())
    text += (
        f", {len(gaps)} gap{'s' * (len(gaps) > 1)} of {lengths} (Delta {' to '.join(map(str, deltas))} steps)"
    )
    return text + (f", {lost} steps lost and run again" if lost else "")


def describe_bits(config: "Config") -> str:
    """Say what equality of two runs can be expected on this device."""
    import torch

    from ..trainers.determinism import usable_device

    if usable_device(config.device).type == "cpu":
        return (
            f"on the CPU with {config.threads} thread{'s' * (config.threads > 1)}, {config.precision}: the same "
            "command gives the same bits on this kind of machine, through any gap"
        )
    return (
        f"on {torch.cuda.get_device_name(config.device)}, {config.precision}, deterministic algorithms on: the same "
        "command gives the same bits on this kind of GPU with this torch, through any gap"
    )


def _result_line(result: "Result", folder: Path, in_real_time: bool) -> str:
    config, plan = result.config, result.config.plan
    measures = ", ".join(f"{name} {value:.4f}" for name, value in result.measures.items())
    if in_real_time:  # what happened; the plan is of virtual time
        first, last = (result.log.slice(k, 1).to_pylist()[0] for k in (0, len(result.log) - 1))
        gaps, wall_ns = (
            last["window"],
            last["wall_ns"] - first["wall_ns"],
        )  # a trace by its dates began long ago
    else:
        gaps, wall_ns = plan.window_count - 1, plan.finish_ns
    return (
        f"{config.resolved_task.name} {config.trace.trace_id} {config.resolved_method.name} seed {config.seed}: "
        f"{measures} after {result.steps} steps, {gaps} gap{'s' * (gaps != 1)}, "
        f"{duration(wall_ns / 1e9)} wall-clock, weights {result.weights_sha256[:12]}; {folder}"
    )
