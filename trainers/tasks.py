"""What is trained: a task is a model, its data by position, its loss and its evaluation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from ..errors import InputError
from .methods import imported, takes

Optimizer = Callable[[Iterable[torch.nn.Parameter], float], torch.optim.Optimizer]


class TaskError(InputError):
    """What was given names no task."""


def adamw(parameters: Iterable[torch.nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """Return AdamW with betas (0.9, 0.999) and weight decay 0.01 (torch's defaults)."""
    return torch.optim.AdamW(parameters, lr=lr)


def sgd(parameters: Iterable[torch.nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """Return SGD with momentum 0.9 and weight decay 5e-4, as is usual for residual networks."""
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=5e-4)


@dataclass(frozen=True)
class Task:
    """A task that can be stopped and resumed at any step, because its data go by position.

    Parameters
    ----------
    name : str
    model : callable
        ``model()`` makes the model; torch's generator is seeded before.
    batch : callable
        ``batch(seed, step)`` returns the step's batch: a tensor or a tuple, list or dict of tensors. It
        must depend on nothing else.
    loss : callable
        ``loss(model, batch)`` returns a scalar tensor.
    evaluate : callable
        ``evaluate(model)`` returns measures by name; called in evaluation mode, without gradients.
    optimizer : callable
        ``optimizer(parameters, lr)``.
    lr : float
        Peak learning rate.
    warmup, final : float
        Share of the run spent on LR warm-up, and share of the peak left at the horizon.
    clip_norm : float or None
        Largest gradient norm.
    steps : int
        Default length of a run.
    step_s : float
        Nominal duration of a step [s], which decides how many fit into a window.
    data_digest : str
        sha256 of the data, recorded with the run.
    """

    name: str
    model: Callable[[], torch.nn.Module]
    batch: Callable[[int, int], Any]
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    evaluate: Callable[[torch.nn.Module], dict[str, float]]
    optimizer: Optimizer = adamw
    lr: float = 1e-3
    warmup: float = 0.1
    final: float = 0.1
    clip_norm: float | None = 1.0
    steps: int = 1000
    step_s: float = 60.0
    data_digest: str = ""


TASKS = {
    "gpt2-tiny": "orbittrace_data.trainers.text:gpt2_tiny",
    "gpt2-small": "orbittrace_data.trainers.text:gpt2_small",
    "resnet-mnist": "orbittrace_data.trainers.images:resnet_mnist",
    "resnet18-cifar10": "orbittrace_data.trainers.images:resnet18_cifar10",
}


@lru_cache(maxsize=8)  # a study asks for the same few tasks a thousand times
def task_named(spec: str, drift_at: tuple[int, ...] = (), data: str | None = None) -> Task:
    """Make a task by its name on the command line.

    Parameters
    ----------
    spec : str
        A name in `TASKS`, or one's own as ``module:function``, where the function returns a `Task`.
    drift_at : tuple of int
        Steps at which the data change; given to the function if there are any.
    data : str, optional
        Data set for tasks that load one; given to the function if not None.

    Returns
    -------
    Task

    Raises
    ------
    TaskError
    """
    where = TASKS.get(spec, spec)
    if ":" not in where:
        raise TaskError(
            f"unknown task {spec!r}: allowed are {', '.join(TASKS)}, or one's own as module:function"
        )
    options: dict[str, Any] = {"drift_at": drift_at} if drift_at else {}
    if data is not None:
        options["data"] = data
    function = imported(where)
    if not takes(function):
        raise TaskError(f"{spec} must be a function that needs no arguments and returns a Task")
    if not takes(function, **options):
        raise TaskError(f"task {spec} takes no {' or '.join(options)}")
    task = function(**options)
    if not isinstance(task, Task):
        raise TaskError(f"{spec} must return a Task, it returned {type(task).__name__}")
    return replace(task, name=spec)
