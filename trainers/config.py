"""Everything that decides one run, as plain values with a digest."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from ..errors import InputError
from ..plan import Plan
from ..trace import Trace
from .methods import STRONG, Method, Regime, code_digest, imported, method_named
from .tasks import Task, task_named


class ConfigError(InputError):
    """A run that cannot be configured like this."""


@dataclass(frozen=True)
class Config:
    """One run: what is trained, under which trace, by which method, from which seed.

    Parameters
    ----------
    task : str or Task
        A name (`tasks.task_named`), or one's own `Task`.
    trace : Trace
        When compute is available.
    method : str or Method
        A name (`methods.method_named`), or one's own `Method`.
    regime : Regime
        What outlives a gap, and whether the data drift.
    seed : int
        Of the initial weights and of dropout, and of the data order where ``order_seed`` is None.
    order_seed : int, optional
        Of the data order: several of them with one seed measure the noise of the data order.
    steps, step_s, lr, warmup : optional
        In place of the task's: length of the run, nominal duration of a step [s], peak learning rate, share of
        LR warm-up.
    save_s, restore_s, margin_s : float
        Durations that the plan allows for [s].
    save_every : int
        Steps between checkpoints inside a window, against surprises; 0 for none.
    actual : Trace, optional
        What happened, where the trace is a forecast that missed.
    reenter_steps : int, optional
        In place of the method's longest ramp, for methods that have one.
    evaluate_every : int
        Steps between evaluations along the way; 0 for one at the end.
    accumulate : int
        Batches whose gradients are added up for one step.
    precision : {"fp32", "bf16", "fp16"}
        Of autocast; fp16 brings a gradient scaler.
    device : str
    threads : int
        CPU threads: other numbers give other bits.
    data : str, optional
        Data set for tasks that load one.

    Examples
    --------
    >>> config = Config("gpt2-tiny", Trace("demo", 100_000, [[90_000, 100_000]]), steps=10, step_s=30)
    >>> config.plan
    <Plan under demo: 10 steps of 30 s in 4 windows, over after 330 s>
    >>> Config.from_json(json.loads(json.dumps(config.to_json()))).digest == config.digest
    True
    """

    task: str | Task
    trace: Trace
    method: str | Method = STRONG
    regime: Regime = field(default_factory=Regime)
    seed: int = 0
    order_seed: int | None = None
    steps: int | None = None
    step_s: float | None = None
    lr: float | None = None
    warmup: float | None = None
    save_s: float = 0.0
    restore_s: float = 0.0
    margin_s: float = 0.0
    save_every: int = 0
    actual: Trace | None = None
    reenter_steps: int | None = None
    evaluate_every: int = 0
    accumulate: int = 1
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: str = "cpu"
    threads: int = 1
    data: str | None = None

    def __post_init__(self):
        if self.precision not in ("fp32", "bf16", "fp16"):
            raise ConfigError(f"precision is fp32, bf16 or fp16, got {self.precision!r}")
        for name, least in (
            ("threads", 1),
            ("accumulate", 1),
            ("evaluate_every", 0),
            ("save_every", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise ConfigError(f"lr must be a positive number, got {self.lr!r}")
        if self.warmup is not None and not 0 <= self.warmup <= 1:
            raise ConfigError(f"warmup is a share of the run in [0, 1], got {self.warmup!r}")
        if isinstance(self.task, Task) and (self.regime.drift_at or self.data is not None):
            raise ConfigError(
                "a Task that is given as an object brings its own data: leave drift_at and data out, "
                "or give the task as module:function"
            )

    @cached_property
    def resolved_task(self) -> Task:
        """The task, with this run's length, pace and learning rate in place of its own."""
        task = self.task
        if not isinstance(task, Task):
            task = task_named(task, self.regime.drift_at, self.data)
        given = {name: getattr(self, name) for name in ("steps", "step_s", "lr", "warmup")}
        return replace(task, **{name: value for name, value in given.items() if value is not None})

    @cached_property
    def resolved_method(self) -> Method:
        """The method, with this run's ramp in place of its own."""
        method = self.method if isinstance(self.method, Method) else method_named(self.method)
        if self.reenter_steps is not None and method.reenter_steps:
            method = replace(method, reenter_steps=self.reenter_steps)
        return method

    @cached_property
    def plan(self) -> Plan:
        """When each step runs; an uninterrupted run has a trace without gaps."""
        task, trace, actual = self.resolved_task, self.trace, self.actual
        if not self.resolved_method.interrupted:
            trace, actual = Trace(f"{trace.trace_id} without its gaps", trace.span_ms, trace.gaps[:0]), None
        return trace.plan(
            task.steps,
            step_s=task.step_s,
            save_s=self.save_s,
            restore_s=self.restore_s,
            margin_s=self.margin_s,
            save_every=self.save_every or None,
            actual=actual,
        )

    def identity(self) -> dict[str, Any]:
        """Return what two runs must have in common to be the same one, in JSON's types."""
        task = self.resolved_task
        own = self.task if isinstance(self.task, str) and ":" in self.task else ""
        code = code_digest(imported(own)) if own else ""
        return ({"task_code": code} if code else {}) | {
            "task": task.name,
            "data_sha256": task.data_digest,
            "method": self.resolved_method.to_json(),
            "persists": self.regime.persists,
            "drift_at": list(self.regime.drift_at),
            "horizon": task.steps,
            "plan": self.plan.digest,
            "seed": self.seed,
            "order_seed": self.seed if self.order_seed is None else self.order_seed,
            "lr": task.lr,
            "warmup": task.warmup,
            "final": task.final,
            "clip_norm": task.clip_norm,
            "accumulate": self.accumulate,
            "evaluate_every": self.evaluate_every,
            "precision": self.precision,
            "threads": self.threads,
        }

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of `identity`."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the run in JSON's types, the trace's gaps included; `from_json` reads it back.

        Raises
        ------
        ConfigError
            If the task or the method is an object and not a name.
        """
        if isinstance(self.task, Task):
            raise ConfigError(
                f"the task {self.task.name} was given as an object: give it as module:function, "
                "so that another process can make it again"
            )
        method = self.method
        if isinstance(method, Method):
            try:
                named = method_named(method.name)
            except InputError:
                named = None
            if named != method:
                raise ConfigError(
                    f"the method {method.name} was given as an object: give it as module:function, "
                    "so that another process can make it again"
                )
            method = method.name
        plain = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("trace", "actual", "method", "regime")
        }
        return plain | {
            "method": method,
            "regime": {"persists": self.regime.persists, "drift_at": list(self.regime.drift_at)},
            "trace": _trace_to_json(self.trace),
            "actual": None if self.actual is None else _trace_to_json(self.actual),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Config":
        """Read what `to_json` returned."""
        actual = values["actual"]
        return cls(
            **{name: value for name, value in values.items() if name not in ("trace", "actual", "regime")},
            trace=_trace_from_json(values["trace"]),
            actual=None if actual is None else _trace_from_json(actual),
            regime=Regime(values["regime"]["persists"], tuple(values["regime"]["drift_at"])),
        )


def _trace_to_json(trace: Trace) -> dict[str, Any]:
    return {
        "trace_id": trace.trace_id,
        "span_ms": trace.span_ms,
        "start": None if trace.start is None else trace.start.isoformat(),
        "regime": trace.regime,
        "split": trace.split,
        "release": trace.release,
        "gaps": trace.gaps.tolist(),
    }


def _trace_from_json(values: Mapping[str, Any]) -> Trace:
    start = None if values["start"] is None else datetime.fromisoformat(values["start"])
    return Trace(**{**values, "start": start})
