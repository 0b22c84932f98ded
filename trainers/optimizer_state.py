"""Edits of an optimizer's own state in place: what a gap, or what is lost in it, does to the moments.

For `torch.optim.AdamW` (and Adam) the first moment m is ``exp_avg`` and the second moment v is
``exp_avg_sq``; for `torch.optim.SGD` m is ``momentum_buffer`` and there is no v. The step count, which
sets AdamW's bias correction, is kept by every edit but the loss of both moments.
"""

from typing import Literal

import torch

from ..errors import InputError

Persists = Literal["all", "m", "v", "nothing"]

_MOMENTS = {
    "Adam": ("exp_avg", "exp_avg_sq"),
    "AdamW": ("exp_avg", "exp_avg_sq"),
    "SGD": ("momentum_buffer", ""),
}


class OptimizerStateError(InputError):
    """An optimizer whose state these edits do not know."""


def moment_names(optimizer: torch.optim.Optimizer) -> tuple[str, str]:
    """Return the state's keys of the first and the second moment ("" where there is none).

    Raises
    ------
    OptimizerStateError
        For optimizers other than Adam, AdamW (without AMSGrad) and SGD.
    """
    name = type(optimizer).__name__
    if name not in _MOMENTS or any(group.get("amsgrad") for group in optimizer.param_groups):
        raise OptimizerStateError(
            f"the state of {name} cannot be edited across a gap: use torch.optim.AdamW or Adam without "
            "amsgrad, or torch.optim.SGD; or a method without the reconstruct pillar and a regime in which "
            "all state persists"
        )
    return _MOMENTS[name]


def slowest_decay(optimizer: torch.optim.Optimizer) -> float:
    """Return the decay of the moment that remembers longest: beta2, or SGD's momentum."""
    group = optimizer.param_groups[0]
    return group["betas"][1] if moment_names(optimizer)[1] else group["momentum"]


@torch.no_grad()
def decay_moments(optimizer: torch.optim.Optimizer, delta: int) -> None:
    """Age the moments by ``delta`` steps of zero gradient: m <- beta1^delta m, v <- beta2^delta v.

    For SGD the momentum buffer is multiplied by momentum^delta. Delta 0 changes no bit. The step count
    stays, so AdamW's next bias corrections are those of an optimizer that was never interrupted.

    Parameters
    ----------
    optimizer : torch.optim.AdamW, Adam or SGD
    delta : int
        Length of the gap in steps.

    Examples
    --------
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    >>> weight.grad = torch.ones(1)
    >>> optimizer.step()
    >>> decay_moments(optimizer, 3)
    >>> optimizer.state[weight]["momentum_buffer"]
    tensor([0.1250])
    """
    m, v = moment_names(optimizer)
    if delta == 0:
        return
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"] if v else (group["momentum"], 0.0)
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if state.get(m) is not None:
                state[m].mul_(beta1**delta)
            if v and v in state:
                state[v].mul_(beta2**delta)


@torch.no_grad()
def drop_state(optimizer: torch.optim.Optimizer, persists: Persists) -> None:
    """Lose what does not persist across a gap.

    Parameters
    ----------
    optimizer : torch.optim.AdamW, Adam or SGD
    persists : {"all", "m", "v", "nothing"}
        ``nothing`` empties the state: moments and step count start over. ``v`` zeroes m. ``m`` zeroes
        v, which must then be refilled from the next gradient by `restart_second_moment`, because m
        over a v of zero diverges. SGD has no v: ``v`` and ``nothing`` lose its buffer.
    """
    if persists == "all":
        return
    m, v = moment_names(optimizer)
    if persists == "nothing" or not v:
        if persists != "m":
            optimizer.state.clear()
        return
    lost = m if persists == "v" else v
    for state in optimizer.state.values():
        state[lost].zero_()


@torch.no_grad()
def restart_second_moment(optimizer: torch.optim.Optimizer) -> None:
    """Refill a lost v from the gradient at hand, and clip m so that the next step stays bounded.

    Call it after the backward pass of the first step for which m persisted and v did not. With
    q = max(g^2, its mean over the tensor) and the accumulated weights c1 = 1 - beta1^t, c2 = 1 - beta2^t of
    t steps, it sets v <- c2 q and clips m to +-c1 sqrt(q): AdamW's bias-corrected v then equals at most q
    after its step, and no weight moves by more than about the learning rate.
    """
    m, v = moment_names(optimizer)
    if not v:
        return
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        for parameter in group["params"]:
            state = optimizer.state.get(parameter)
            if not state or parameter.grad is None:
                continue
            done = float(state["step"])
            square = parameter.grad.square()
            square = torch.maximum(square, square.mean())
            bound = square.sqrt() * (1 - beta1**done)
            state[v].copy_(square * (1 - beta2**done))
            state[m].copy_(torch.maximum(torch.minimum(state[m], bound), -bound))
