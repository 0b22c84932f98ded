"""What happens to a run's state between two windows."""

import torch

from .methods import Gap, Method
from .optimizer_state import Persists, decay_moments, drop_state, slowest_decay
from .schedule import reentry_length


def cross(
    gap: Gap,
    method: Method,
    persists: Persists,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> int:
    """Do to the state what a gap does: lose what does not persist, then what the method does about it.

    Returns
    -------
    int
        Length of the learning rate's ramp [steps].
    """
    drop_state(optimizer, persists)
    if method.reconstruct:
        decay_moments(optimizer, gap.delta)
    if method.after_gap is not None:
        method.after_gap(gap, model, optimizer)
    if not method.reenter_steps:
        return 0
    return reentry_length(method.reenter_steps, slowest_decay(optimizer), gap.delta)
