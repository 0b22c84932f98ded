"""Learning-rate schedules as pure functions of a clock: nothing to save, nothing to restore.

A schedule reads an index of whole steps. What differs between methods is only which clock gives that
index (active steps, or wall-clock steps that run on through gaps) and where the horizon lies.
"""

import math

from ..errors import InputError


def warmup_cosine(index: int, horizon: int, warmup_steps: int, final: float) -> float:
    """Return the share of the peak learning rate at an index: linear LR warm-up, then half a cosine.

    Parameters
    ----------
    index : int
        Steps gone by on the schedule's clock; beyond the horizon it stays at the final share.
    horizon : int
        Index at which the cosine ends.
    warmup_steps : int
        Length of the LR warm-up; index 0 already takes a small step.
    final : float
        Share left at the horizon.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> [round(warmup_cosine(k, 10, 2, 0.0), 3) for k in (0, 1, 2, 6, 10, 99)]
    [0.5, 1.0, 1.0, 0.5, 0.0, 0.0]
    """
    if index < warmup_steps:
        return (index + 1) / warmup_steps
    if index >= horizon:
        return final
    share = (index - warmup_steps) / max(1, horizon - warmup_steps)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * share))


def reentry(since_gap: int, length: int) -> float:
    """Return the factor that eases the learning rate in again after a gap: (i + 1) / (R + 1), at most 1.

    Source: the re-warm-up of ReLoRA (Lialin et al. 2023, arXiv 2307.05695, section 3), made as long as the
    gap calls for by `reentry_length`.

    Parameters
    ----------
    since_gap : int
        Steps done since the gap, i.
    length : int
        Steps of the ramp, R; 0 for none.

    Examples
    --------
    >>> [reentry(i, 3) for i in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return min(1.0, (since_gap + 1) / (length + 1))


def reentry_length(longest: int, beta: float, delta: int) -> int:
    """Return the ramp's length after a gap: R = ceil(R0 (1 - beta^delta)).

    Parameters
    ----------
    longest : int
        R0, the ramp after an endless gap [steps].
    beta : float
        Decay of the slowest moment: AdamW's beta2, SGD's momentum.
    delta : int
        Length of the gap [steps].

    Examples
    --------
    >>> reentry_length(20, 0.999, 0), reentry_length(20, 0.999, 35), reentry_length(20, 0.999, 10**6)
    (0, 1, 20)
    """
    if not 0 <= beta < 1 or longest < 0:
        raise InputError(f"a ramp needs beta in [0, 1) and a length of at least 0, got {beta} and {longest}")
    return math.ceil(longest * (1 - beta**delta))
