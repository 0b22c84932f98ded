"""What a run does about its gaps: the method; and what the gaps do to the run: the regime.

Methods differ in which clock the learning rate reads and in what they do at a gap, and in nothing else.
``weak`` and ``strong`` are the baselines of arXiv 2609.22087. ``aat`` is our reconstruction of its
availability-aware training, as a factorial of three pillars on top of weak:

======================  ===========================================================================
``clock``               the learning rate reads active time, so it stands still in a gap
``reconstruct``         the moments age across the gap: m <- beta1^Delta m, v <- beta2^Delta v
``reenter``             the learning rate is ramped up again after the gap
======================  ===========================================================================

So weak with no pillar is weak, and weak with ``clock`` alone is strong.
"""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from ..errors import InputError
from .optimizer_state import Persists

PILLARS = ("clock", "reconstruct", "reenter")


class MethodError(InputError):
    """What was given names no method or no regime."""


@dataclass(frozen=True)
class Gap:
    """A gap that a run has just come out of.

    Parameters
    ----------
    step : int
        The step that follows it.
    delta : int
        Its length in whole steps.
    duration_s : float
        Its length [s].
    """

    step: int
    delta: int
    duration_s: float


@dataclass(frozen=True)
class Method:
    """One way to train through gaps.

    Parameters
    ----------
    name : str
    interrupted : bool
        False for the reference run that meets no gap.
    clock : {"active", "wall"}
        What the learning rate's index counts: active steps, or wall-clock steps, which run on in gaps.
    horizon : {"active", "wall"}
        Where a wall-clock schedule ends: after as many steps as are trained, or when the plan ends.
    reconstruct : bool
        Whether the moments age across a gap (`optimizer_state.decay_moments`).
    reenter_steps : int
        Longest ramp of the learning rate after a gap [steps]; 0 for none (`schedule.reentry_length`).
    recalibrate_batches : int
        Batches over which the statistics of batch normalisation are taken anew after a gap; 0 for none.
    fresh_order : bool
        Whether the data order is drawn anew after each gap.
    after_gap : callable, optional
        One's own deed: called as ``after_gap(gap, model, optimizer)`` before the first step after a gap. It
        must keep nothing to itself: a restart would lose it.
    lr_factor : callable, optional
        One's own ramp: the learning rate after a gap is multiplied by ``lr_factor(steps since it, its Delta)``.
    """

    name: str
    interrupted: bool = True
    clock: Literal["active", "wall"] = "active"
    horizon: Literal["active", "wall"] = "active"
    reconstruct: bool = False
    reenter_steps: int = 0
    recalibrate_batches: int = 0
    fresh_order: bool = False
    after_gap: Callable[[Gap, torch.nn.Module, torch.optim.Optimizer], None] | None = None
    lr_factor: Callable[[int, int], float] | None = None

    def __post_init__(self):
        if self.clock not in ("active", "wall") or self.horizon not in ("active", "wall"):
            raise MethodError(
                f"method {self.name}: clock and horizon are 'active' or 'wall', "
                f"got {self.clock!r} and {self.horizon!r}"
            )
        if self.horizon == "wall" and self.clock == "active":
            raise MethodError(f"method {self.name}: a wall-clock horizon needs clock='wall'")

    def to_json(self) -> dict[str, Any]:
        """Return what decides a run; one's own functions stand as ``module:function`` and their code's digest."""
        own = {"after_gap": self.after_gap, "lr_factor": self.lr_factor}
        return asdict(replace(self, after_gap=None, lr_factor=None)) | {
            name: None
            if function is None
            else f"{function.__module__}:{function.__qualname__} {code_digest(function)}".rstrip()
            for name, function in own.items()
        }


UNINTERRUPTED = Method("uninterrupted", interrupted=False)
STRONG = Method("strong")
STRONG_FRESH_ORDER = Method("strong-fresh-order", fresh_order=True)
WEAK = Method("weak", clock="wall")
WEAK_WALL_HORIZON = Method("weak-wall-horizon", clock="wall", horizon="wall")
AAT = Method("aat", reconstruct=True, reenter_steps=20)

METHODS = {m.name: m for m in (UNINTERRUPTED, STRONG, STRONG_FRESH_ORDER, WEAK, WEAK_WALL_HORIZON, AAT)}


def weak_with(pillars: set[str] | frozenset[str]) -> Method:
    """Return one cell of the factorial: weak and the given pillars.

    Examples
    --------
    >>> weak_with({"clock"}) == replace(STRONG, name="weak+clock")
    True
    >>> weak_with(set(PILLARS)) == replace(AAT, name="weak+clock+reconstruct+reenter")
    True
    """
    unknown = set(pillars) - set(PILLARS)
    if unknown:
        raise MethodError(f"unknown pillar {', '.join(sorted(unknown))}: allowed are {', '.join(PILLARS)}")
    return replace(
        WEAK,
        name="+".join(["weak", *(p for p in PILLARS if p in pillars)]),
        clock="active" if "clock" in pillars else "wall",
        reconstruct="reconstruct" in pillars,
        reenter_steps=AAT.reenter_steps if "reenter" in pillars else 0,
    )


def method_named(spec: str) -> Method:
    """Return a method by its name on the command line.

    Parameters
    ----------
    spec : str
        A name in `METHODS`; ``weak+clock+reconstruct`` and the like; or one's own, ``module:function``,
        where the function takes nothing and returns a `Method`.

    Returns
    -------
    Method

    Raises
    ------
    MethodError
    """
    if spec in METHODS:
        return METHODS[spec]
    if spec.startswith("weak+"):
        return weak_with(set(spec.split("+")[1:]))
    if ":" in spec:
        function = imported(spec)
        if not takes(function):
            raise MethodError(f"{spec} must be a function that takes nothing and returns a Method")
        method = function()
        if not isinstance(method, Method):
            raise MethodError(f"{spec} must return a Method, it returned {type(method).__name__}")
        return method
    raise MethodError(
        f"unknown method {spec!r}: allowed are {', '.join(METHODS)}, weak+PILLAR+... with the pillars "
        f"{', '.join(PILLARS)}, or one's own as module:function"
    )


def code_digest(function: Callable[..., Any]) -> str:
    """Return the beginning of the sha256 of the file that a function of one's own stands in.

    So a run counts as another one when its code was edited. Empty for this package's own functions, which the version
    stands for, and where there is no file.
    """
    path = getattr(sys.modules.get(function.__module__), "__file__", None)
    if path is None or function.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def imported(spec: str) -> Callable[..., Any]:
    """Import ``module:function``.

    Raises
    ------
    MethodError
        If there is no such module or function.
    """
    module, _, name = spec.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise MethodError(f"{spec} cannot be imported: {error}: write it as module:function") from None


def takes(function: Any, **options: Any) -> bool:
    """Tell whether something can be called with these options and nothing else."""
    try:
        inspect.signature(function).bind(**options)
    except (TypeError, ValueError):  # not callable, other parameters, or a builtin that does not say
        return False
    return True


@dataclass(frozen=True)
class Regime:
    """What gaps do to a run.

    Parameters
    ----------
    persists : {"all", "m", "v", "nothing"}
        What of the optimizer's state outlives a gap (`optimizer_state.drop_state`).
    drift_at : tuple of int
        Steps at which the data change to another distribution, for an uninterrupted run too; the
        evaluation is on the last one.
    """

    persists: Persists = "all"
    drift_at: tuple[int, ...] = ()

    def __post_init__(self):
        if self.persists not in ("all", "m", "v", "nothing"):
            raise MethodError(f"persists is one of all, m, v, nothing; got {self.persists!r}")
        if list(self.drift_at) != sorted(set(self.drift_at)) or any(k < 1 for k in self.drift_at):
            raise MethodError(f"drift_at needs rising steps of at least 1, got {list(self.drift_at)}")
        object.__setattr__(self, "drift_at", tuple(self.drift_at))

    @property
    def name(self) -> str:
        """``stationary``, ``state-loss``, ``drift`` or both of the last two."""
        parts = ["state-loss"] * (self.persists != "all") + ["drift"] * bool(self.drift_at)
        return "+".join(parts) or "stationary"
