"""A study: which methods, tasks, traces, regimes and seeds are compared, as a TOML file and as runs.

Two stages follow from one file: tuning on ``dev`` traces, derived from what is to be reported, and the
reported runs, which take the learning rates that the tuning chose. ``studies/`` holds the ones that ship.

.. code-block:: toml

    name = "mine"
    [[task]]                    # as often as there are tasks
    name = "gpt2-tiny"
    steps = 200
    [tune]
    traces = ["leo-44714"]      # of the dev split
    seeds = [1000]
    lr_factors = [0.5, 1.0, 2.0]
    [[block]]                   # every combination of what stands in it is run
    tasks = ["gpt2-tiny"]
    methods = ["uninterrupted", "strong", "my_module:my_method"]
    traces = ["leo-25544", "pause:600s/60s"]
    seeds = [0, 1, 2, 3, 4]
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import numpy as np

from ..errors import InputError
from ..trace import DAY_MS, Trace
from ..trace_spec import resolve_trace
from .config import Config
from .methods import Regime, method_named
from .protocol import TUNED_AS, Key, tuning_key
from .tasks import task_named

STUDIES = Path(__file__).with_name("studies")
SCALES = ("cpu", "gpu")
NO_GAPS = Trace("no-gaps", 14 * DAY_MS, np.empty((0, 2), np.int64))


class StudyError(InputError):
    """A study that cannot be read or run."""


@dataclass(frozen=True)
class TaskLength:
    """A task and how it is run in a study; ``lr_factors`` replaces the study's for every method of the task."""

    name: str
    steps: int
    step_s: float = 60.0
    evaluate_every: int = 0
    data: str | None = None
    lr_factors: tuple[float, ...] = ()


@dataclass(frozen=True)
class Tune:
    """What every method may try: each factor of the task's learning rate, with these seeds and traces."""

    traces: tuple[str, ...]
    seeds: tuple[int, ...]
    lr_factors: tuple[float, ...]


@dataclass(frozen=True)
class Block:
    """Runs of every combination; ``tune_on`` replaces the study's tuning traces (schedules only)."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    traces: tuple[str, ...] = ()
    persists: tuple[str, ...] = ("all",)
    drift: tuple[bool, ...] = (False,)
    orders: tuple[int, ...] = (0,)
    tune_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A protocol and the runs that follow from it.

    Parameters
    ----------
    name : str
    tasks : tuple of TaskLength
    tune : Tune
    blocks : tuple of Block
    device, precision, threads
        Of every run.
    """

    name: str
    tasks: tuple[TaskLength, ...]
    tune: Tune
    blocks: tuple[Block, ...]
    device: str = "cpu"
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    threads: int = 1

    def with_method(self, method: str) -> "Study":
        """Return the study with one more method, in each block that compares more than the references."""
        name = method_named(method).name
        if any(method_named(there).name == name for b in self.blocks for there in b.methods):
            raise StudyError(
                f"study {self.name} has a method {name} already: leave {method} out, or name it otherwise"
            )
        compared = [b for b in self.blocks if "strong" in b.methods]
        if not compared:
            raise StudyError(
                f"study {self.name} has no block with strong, which {method} would be compared with"
            )
        blocks = (replace(b, methods=(*b.methods, method)) if b in compared else b for b in self.blocks)
        return replace(self, blocks=tuple(blocks))


@dataclass(frozen=True)
class Run:
    """One config of a study, and what it is for."""

    config: Config
    stage: Literal["tune", "report"]
    lr_factor: float
    tuned_on: str
    drift: bool = False

    @property
    def key(self) -> Key:
        """What its learning rate is tuned for."""
        config = self.config
        name = config.resolved_method.name
        return tuning_key(str(config.task), name, config.regime.persists, self.drift, self.tuned_on)


# Reading ------------------------------------------------------------------------------------------


def read_study(which: str, scale: str | None = None) -> Study:
    """Read a study that ships, or one's own file.

    Parameters
    ----------
    which : str
        ``quick``, ``paper``, or the path of a TOML file.
    scale : {"cpu", "gpu"}, optional
        Of ``paper``; by default ``cpu``.

    Raises
    ------
    StudyError
        Naming what is wrong in the file.

    Examples
    --------
    >>> study = read_study("quick")
    >>> study.name, [task.name for task in study.tasks]
    ('quick', ['gpt2-tiny', 'resnet-mnist'])
    """
    if scale is not None and (which != "paper" or scale not in SCALES):
        raise StudyError(
            f"--scale is {', '.join(SCALES)} and belongs to --study paper, got {scale!r} for {which}"
        )
    if which in ("quick", "paper"):
        path = STUDIES / ("quick.toml" if which == "quick" else f"paper-{scale or 'cpu'}.toml")
    else:
        path = Path(which)
    try:
        return study_from(tomllib.loads(path.read_text()), str(path))
    except FileNotFoundError:
        raise StudyError(
            f"there is no study {which!r}: give quick, paper, or the path of a TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} is no TOML file: {error}") from None


def study_from(values: Mapping[str, Any], where: str = "study") -> Study:
    """Make a study of what a TOML file holds."""
    values = dict(values)
    tasks = tuple(_make(TaskLength, v, f"{where}, [[task]]") for v in values.pop("task", ()))
    blocks = tuple(_make(Block, v, f"{where}, [[block]]") for v in values.pop("block", ()))
    tune = _make(Tune, values.pop("tune", {}), f"{where}, [tune]")
    study = _make(Study, values | {"tasks": tasks, "blocks": blocks, "tune": tune}, where)
    if not re.fullmatch(r"[\w.-]*\w", study.name, re.ASCII):
        raise StudyError(
            f"{where}: name must be made of letters, digits, '.', '_' and '-', got {study.name!r}"
        )
    names = [task.name for task in tasks]
    if not blocks or len(set(names)) != len(names):
        raise StudyError(f"{where} needs one [[block]] at least, and each [[task]] once")
    for block in blocks:
        unknown = set(block.tasks) - set(names)
        if unknown:
            raise StudyError(
                f"{where}: a block names {', '.join(sorted(unknown))}, of which there is no [[task]]"
            )
        if not block.traces and set(block.methods) != {"uninterrupted"}:
            raise StudyError(f"{where}: a block without traces can hold the method uninterrupted alone")
        if any(not method_named(m).interrupted and m != "uninterrupted" for m in block.methods):
            raise StudyError(f"{where}: only uninterrupted may do without gaps")
    specs = {method for block in blocks for method in block.methods}
    if len({method_named(method).name for method in specs}) != len(specs):
        raise StudyError(f"{where}: two of the methods {', '.join(sorted(specs))} have the same name")
    if not (tune.traces and tune.seeds and tune.lr_factors):
        raise StudyError(f"{where}: [tune] needs one trace, one seed and one factor at least")
    reported = {seed for block in blocks for seed in block.seeds}
    if reported & set(tune.seeds):
        raise StudyError(
            f"{where}: seeds {sorted(reported & set(tune.seeds))} are tuned with and reported too"
        )
    return study


def _make(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """Make a dataclass of a table: every key known, every list a tuple."""
    known = {f.name: f for f in fields(kind)}
    unknown = set(values) - set(known)
    if unknown:
        raise StudyError(f"{where}: unknown {', '.join(sorted(unknown))}; allowed are {', '.join(known)}")
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    for name, value in plain.items():
        if not _fits(value, known[name].type):
            raise StudyError(f"{where}: {name} must be {_in_words(known[name].type)}, got {values[name]!r}")
    try:
        return kind(**plain)
    except TypeError as error:
        raise StudyError(f"{where}: {error}") from None


def _fits(value: Any, kind: Any) -> bool:
    """Tell whether a value of a TOML file has the type of a field."""
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(v, get_args(kind)[0]) for v in value)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is UnionType:
        return any(_fits(value, one) for one in get_args(kind))
    if kind is float:
        return _fits(value, int) or isinstance(value, float)
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)


def _in_words(kind: Any) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    if get_origin(kind) is tuple:
        return f"a list, each entry {_in_words(get_args(kind)[0])}"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is UnionType:
        return _in_words(get_args(kind)[0])
    return names.get(kind, "a table")


# Runs ---------------------------------------------------------------------------------------------


def tuning_runs(study: Study) -> list[Run]:
    """Return the runs that learning rates are tuned with: every factor for every key that is reported."""
    runs: dict[Key, list[Run]] = {}
    for block in study.blocks:
        for task, method, persists, drift in _combinations(study, block):
            tuned_on = _tuned_on(study, block, method)
            key = tuning_key(task.name, method_named(method).name, persists, drift, " ".join(tuned_on))
            runs[key] = [
                make_run(
                    study,
                    task,
                    TUNED_AS.get(method, method),
                    trace,
                    persists,
                    drift,
                    seed,
                    seed,
                    "tune",
                    factor,
                    key[-1],
                )
                for factor in task.lr_factors or study.tune.lr_factors
                for seed in study.tune.seeds
                for trace in tuned_on
            ]
    strong_first = sorted(runs, key=lambda key: key[1] != "strong")
    return list(_distinct(run for key in strong_first for run in runs[key]))


def report_runs(study: Study, chosen: Mapping[Key, float]) -> list[Run]:
    """Return the runs that are reported, at the factors of the learning rate that tuning chose."""
    runs = []
    for block in study.blocks:
        for task, method, persists, drift in _combinations(study, block):
            tuned_on = " ".join(_tuned_on(study, block, method))
            factor = chosen[tuning_key(task.name, method_named(method).name, persists, drift, tuned_on)]
            traces = block.traces if method_named(method).interrupted else ("no-gaps",)
            runs += [
                make_run(study, task, method, trace, persists, drift, seed, order, "report", factor, tuned_on)
                for trace in traces
                for seed in block.seeds
                for order in (seed + 10_000 * k for k in block.orders)
            ]
    return list(_distinct(runs))


def make_run(
    study: Study,
    task: TaskLength,
    method: str,
    trace: str,
    persists: Any,
    drift: bool,
    seed: int,
    order_seed: int,
    stage: Literal["tune", "report"],
    lr_factor: float,
    tuned_on: str,
) -> Run:
    """Make one run of a study."""
    config = Config(
        task.name,
        _trace(trace),
        method,
        Regime(persists, (task.steps // 2,) if drift else ()),
        seed=seed,
        order_seed=None if order_seed == seed else order_seed,
        steps=task.steps,
        step_s=task.step_s,
        lr=_task_lr(task.name, task.data) * lr_factor,
        evaluate_every=task.evaluate_every,
        device=study.device,
        precision=study.precision,
        threads=study.threads,
        data=task.data,
    )
    return Run(config, stage, lr_factor, tuned_on, drift)


def _combinations(study: Study, block: Block) -> Iterator[tuple[TaskLength, str, str, bool]]:
    lengths = {task.name: task for task in study.tasks}
    for task, method, persists, drift in product(block.tasks, block.methods, block.persists, block.drift):
        yield lengths[task], method, persists, drift


def _tuned_on(study: Study, block: Block, method: str) -> Sequence[str]:
    """Return the traces a method is tuned on; the reference without gaps has one tuning for all blocks."""
    return study.tune.traces if method == "uninterrupted" or not block.tune_on else block.tune_on


def _distinct(runs: Iterator[Run] | Sequence[Run]) -> Iterator[Run]:
    """Drop runs that were there before."""
    seen = set()
    for run in runs:
        if run.config.digest not in seen:
            seen.add(run.config.digest)
            yield run


@lru_cache(maxsize=256)
def _trace(spec: str) -> Trace:
    return NO_GAPS if spec == "no-gaps" else resolve_trace(spec)


@lru_cache(maxsize=32)
def _task_lr(name: str, data: str | None) -> float:
    return task_named(name, data=data).lr
