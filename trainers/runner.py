"""Run a study: independent runs on the cores or GPUs of this machine, or on a Ray cluster.

Every run is decided by its config alone and has a folder ``runs/DIGEST`` that appears whole:
``config.json``, ``log.parquet`` and ``row.json``. What is there is never run again, so a study that was
killed goes on where it was, and another study in the same folder takes over what it shares.
"""

import fcntl
import json
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..atomic import new_directory
from ..errors import InputError
from ..progress import progress
from ..ray_cluster import ray_cluster
from .config import Config
from .protocol import ProtocolError, choose, splits
from .records import OUTCOME, Row, outcome, planned_row, write_rows
from .study import Run, Study, report_runs, tuning_runs

Outcome = tuple[Row, bytes] | str  # the row's results and the log as parquet, or what went wrong
Engine = Callable[[Sequence[dict[str, Any]]], Iterator[tuple[int, Outcome]]]


class RunnerError(InputError):
    """An engine that cannot be used."""


def run_study(
    study: Study, out: Path, engine: Engine, note: Callable[[str], None] = print, *, unprotected: bool = False
) -> list[Row]:
    """Tune, choose, run what is to be reported, and write ``rows.parquet``.

    Parameters
    ----------
    study : Study
    out : Path
        Result folder.
    engine : callable
        `local_engine` or `ray_engine`: takes configs in JSON's types, yields (place, outcome) as they end.
    note : callable
        Is told, in a line each, what was chosen and what failed.
    unprotected : bool
        Whether to run traces of the wrong split.

    Returns
    -------
    list of dict
        A row for every run, the failed ones too.

    Raises
    ------
    ProtocolError
        If the study itself breaks the protocol; like all that is wrong in a study, that is said before any run.
    """
    trials = tuning_runs(study)
    planned = report_runs(study, dict.fromkeys((run.key for run in trials), 1.0))
    broken = splits(*([planned_row(run, study.name) for run in runs] for runs in (trials, planned)))
    if broken and not unprotected:
        raise ProtocolError(broken)
    with _alone(out):
        tune = run_all(trials, study.name, out, engine, "tuning", note)
        chosen = choose(tune)
        rows = tune + run_all(report_runs(study, chosen), study.name, out, engine, "reported runs", note)
        write_rows(out / "rows.parquet", rows)
    return rows


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold a result folder; the system lets go of it when the process ends, however it ends."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunnerError(
                f"another comparison is at work in {out}: wait for it, or choose another --out"
            ) from None
        yield


def run_all(
    runs: Sequence[Run], study: str, out: Path, engine: Engine, what: str, note: Callable[[str], None] = print
) -> list[Row]:
    """Run what has no folder yet, and return a row for every run."""
    rows: list[Row] = []
    missing: list[Run] = []
    for run in runs:
        row = _read_row(run, study, out)
        if row is None and _folder(run, out).exists():
            note(
                f"{_folder(run, out)} is broken: its row.json is missing or not whole; the run is done again"
            )
        if row is None:
            missing.append(run)
        else:
            rows.append(row)
    if len(missing) < len(runs):
        note(f"{what}: {len(runs) - len(missing)} of {len(runs)} runs are there already")
    with progress(what, len(missing), "runs") as advance:
        for place, result in engine([run.config.to_json() for run in missing]):
            run = missing[place]
            row = planned_row(run, study)
            if isinstance(result, str):
                row |= {"error": result.strip().splitlines()[-1]}
                note(
                    f"failed: {row['task']}, {row['method']}, {row['trace']}, seed {row['seed']}: {row['error']}"
                )
                failed = _folder(run, out).with_suffix(".failed.txt")
                failed.parent.mkdir(parents=True, exist_ok=True)
                failed.write_text(result)
            else:
                row |= result[0]
                _write_run(run, row, result[1], out)
            rows.append(row)
            advance(1)
    return rows


def _folder(run: Run, out: Path) -> Path:
    return out / "runs" / run.config.digest[:24]


def _read_row(run: Run, study: str, out: Path) -> Row | None:
    """Return the row of a run that finished: its outcome and data release as they were, its purpose as it is now.

    A folder that was damaged counts as none: its run is done again.
    """
    try:
        kept = json.loads((_folder(run, out) / "row.json").read_bytes())
        config, outcome = kept["config"], {name: kept[name] for name in ("release", *OUTCOME)}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if config != run.config.digest:
        raise RunnerError(f"{_folder(run, out)} belongs to another config: remove it")
    return planned_row(run, study) | outcome


def _write_run(run: Run, row: Row, log: bytes, out: Path) -> None:
    with new_directory(_folder(run, out), replace=True) as folder:
        (folder / "config.json").write_text(json.dumps(run.config.to_json(), indent=1))
        (folder / "row.json").write_text(json.dumps(row, indent=1))
        (folder / "log.parquet").write_bytes(log)
    _folder(run, out).with_suffix(".failed.txt").unlink(missing_ok=True)


def execute(config: dict[str, Any]) -> Outcome:
    """Run one config in this process; what goes wrong is returned, as a traceback."""
    from .loop import train

    try:
        result = train(Config.from_json(config))
        sink = pa.BufferOutputStream()
        pq.write_table(result.log, sink, compression="zstd")
        return outcome(result), sink.getvalue().to_pybytes()
    except Exception:
        return traceback.format_exc()


# This machine -------------------------------------------------------------------------------------


def places(device: str, workers: int | None = None) -> list[str]:
    """Return what runs are pinned to: ``core N`` for each core that may be used, or ``gpu N``."""
    if device == "cpu":
        cores = (
            sorted(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else range(os.cpu_count() or 1)
        )
        found = [f"core {core}" for core in cores]
    else:
        import torch

        found = [f"gpu {index}" for index in range(torch.cuda.device_count())]
    if workers is not None and not 1 <= workers <= len(found):
        raise RunnerError(f"--workers must lie in [1, {len(found)}], this machine's {device}s, got {workers}")
    if not found:
        raise RunnerError(
            f"the study runs on {device}, and this machine has none: use --engine ray, or another scale"
        )
    return found[:workers]


def local_engine(pins: Sequence[str]) -> Engine:
    """Return an engine of one process a core or GPU; a run that kills its process fails alone."""

    def engine(configs: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Outcome]]:
        waiting = deque(enumerate(configs))
        busy: dict[Connection, tuple[int, Any, str]] = {}
        idle: list[tuple[Connection, Any, str]] = []
        free = list(pins)
        try:
            while waiting or busy:
                while waiting and (idle or free):
                    pipe, process, pin = idle.pop() if idle else _start(free.pop(0))
                    place, config = waiting.popleft()
                    pipe.send(config)
                    busy[pipe] = place, process, pin
                for pipe in wait(list(busy)):
                    assert isinstance(pipe, Connection)
                    place, process, pin = busy.pop(pipe)
                    try:
                        result = pipe.recv()
                        idle.append((pipe, process, pin))
                    except (EOFError, OSError):
                        process.join()
                        result = f"its process ended with exit code {process.exitcode}"
                        free.append(pin)
                    yield place, result
        finally:
            for pipe, process in [(p, w) for p, (_, w, _) in busy.items()] + [(p, w) for p, w, _ in idle]:
                process.terminate()
                process.join()
                pipe.close()

    return engine


def _start(pin: str) -> tuple[Connection, Any, str]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, pin), daemon=True)
    process.start()
    theirs.close()
    return ours, process, pin


def _work(pipe: Connection, pin: str) -> None:
    """Run configs as they come until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    kind, number = pin.split()
    if kind == "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = number
    elif hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(number)})
    with suppress(EOFError, OSError):
        while True:
            pipe.send(execute(pipe.recv()))


# Ray ----------------------------------------------------------------------------------------------


def ray_engine(address: str | None = None, cpus: int | None = None) -> Engine:
    """Return an engine that hands runs to a Ray cluster: the cores of a run, or one accelerator, each.

    Its nodes need this package with the extra ``trainers``, the modules of one's own methods and tasks, and no shared
    disk. A run whose worker dies fails alone.

    Parameters
    ----------
    address : str, optional
        Of a cluster; by default what ``RAY_ADDRESS`` says, else one is started on this machine.
    cpus : int, optional
        Cores of a cluster on this machine.
    """

    def engine(configs: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Outcome]]:
        if not configs:
            return
        with ray_cluster(address, cpus) as ray:
            task = ray.remote(max_retries=0)(execute)
            running = {}
            device = configs[0]["device"]
            if device != "cpu" and not ray.cluster_resources().get("GPU"):
                raise RunnerError(
                    f"the study runs on {device}, and the Ray cluster has no GPU: see `ray status`"
                )
            for place, config in enumerate(configs):
                gpus = 0 if config["device"] == "cpu" else 1
                reference = task.options(num_cpus=config["threads"], num_gpus=gpus).remote(config)
                running[reference] = place
            while running:
                for reference in ray.wait(list(running))[0]:
                    try:
                        result = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        result = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
                    yield running.pop(reference), result

    return engine
