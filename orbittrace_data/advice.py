"""The margin before gaps and the checkpoint interval, chosen by trying them on the trace itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import InputError
from .plan import PlanError, Seconds, nanoseconds
from .progress import progress
from .trace import Trace

NS_PER_S = 1_000_000_000


class AdviceError(InputError):
    """Nothing to choose from, or nothing of it can be carried out."""


@dataclass(frozen=True)
class Choice:
    """One margin and one checkpoint interval, carried out under each possible course of events.

    Parameters
    ----------
    margin_ns : int
        Time left free before each forecast gap [ns].
    save_every : int or None
        Steps between saves within a window.
    overhead, worst_overhead : float
        Mean and greatest available time beyond the useful steps, as a share of them.
    margin_share, lost_share : float
        Means of that for margins, and for steps run again.
    lost_steps : float
        Mean number of steps run again.
    """

    margin_ns: int
    save_every: int | None
    overhead: float
    worst_overhead: float
    margin_share: float
    lost_share: float
    lost_steps: float


def advise(
    forecast: Trace,
    actuals: Sequence[Trace],
    steps: int,
    *,
    step_s: Seconds,
    save_s: Seconds = 0,
    restore_s: Seconds = 0,
    margins_s: Sequence[Seconds] = (0,),
    save_every: Sequence[int | None] = (None,),
) -> list[Choice]:
    """Try every margin with every checkpoint interval on the trace, under every course of events.

    Nothing is approximated: each choice is planned and carried out to its last step under each of
    ``actuals``, which are draws from the distribution of misses (`shift_contacts`, `with_outages`) or what
    was observed. One that can never finish under one of them is left out.

    Parameters
    ----------
    forecast : Trace
    actuals : sequence of Trace
        Of the forecast's length.
    steps, step_s, save_s, restore_s
        As for `plan_run`.
    margins_s : sequence of number
        Margins to try [s].
    save_every : sequence of int or None
        Checkpoint intervals to try, in steps; None for saves at windows' ends alone.

    Returns
    -------
    list of Choice
        The least mean overhead first; of equal ones the least worst.

    Raises
    ------
    AdviceError
        If there is nothing to try, or no choice can be carried out.

    Examples
    --------
    >>> forecast = Trace("demo", 100_000, [[50_000, 100_000]])
    >>> early = Trace("demo", 100_000, [[48_000, 100_000]])
    >>> best = advise(forecast, [early], 60, step_s=1, save_s=1, margins_s=[0, 1, 2, 3])[0]
    >>> best.margin_ns / 1e9, best.lost_steps
    (2.0, 0.0)
    """
    if not actuals or not margins_s or not save_every:
        raise AdviceError("give at least one course of events, one margin and one checkpoint interval to try")
    choices, failure = [], None
    tries = [(margin_s, every) for margin_s in margins_s for every in save_every]
    with progress("advice", len(tries), "choices") as advance:
        for margin_s, every in tries:
            advance(1)
            options = {"step_s": step_s, "save_s": save_s, "restore_s": restore_s, "margin_s": margin_s}
            try:
                plans = [
                    forecast.plan(steps, **options, save_every=every, actual=actual) for actual in actuals
                ]
            except PlanError as error:
                failure = error
                continue
            costs = [plan.cost() for plan in plans]
            overheads = [cost.overhead for cost in costs]
            lost = [int(plan.lost_count.sum()) for plan in plans]
            choices.append(
                Choice(
                    nanoseconds(margin_s, "margins_s"),
                    every,
                    math.fsum(overheads) / len(plans),
                    max(overheads),
                    sum(cost.margin_ns for cost in costs) / sum(cost.useful_ns for cost in costs),
                    sum(cost.redone_ns for cost in costs) / sum(cost.useful_ns for cost in costs),
                    sum(lost) / len(plans),
                )
            )
    if not choices:
        raise AdviceError(f"no margin and interval can be carried out; of the last: {failure}")
    return sorted(choices, key=lambda choice: (choice.overhead, choice.worst_overhead))


def best_by_margin(choices: Sequence[Choice]) -> list[Choice]:
    """Return the best choice of each margin, the narrowest margin first: what margin trades for lost work.

    Examples
    --------
    >>> forecast, early = (Trace("demo", 100_000, [[t, 100_000]]) for t in (50_000, 48_000))
    >>> choices = advise(forecast, [early], 60, step_s=1, margins_s=[0, 2], save_every=[None, 10])
    >>> [(c.margin_ns / 1e9, c.save_every, c.lost_steps) for c in best_by_margin(choices)]
    [(0.0, 10, 8.0), (2.0, None, 0.0)]
    """
    best: dict[int, Choice] = {}
    for choice in sorted(choices, key=lambda c: (c.overhead, c.worst_overhead)):
        best.setdefault(choice.margin_ns, choice)
    return [best[margin_ns] for margin_ns in sorted(best)]


def young_s(save_s: float, mtbf_s: float) -> float:
    """Return Young's checkpoint interval for random failures [s]: sqrt(2 save mtbf).

    Young (1974), A first order approximation to the optimum checkpoint interval, CACM 17(9), eq. 6. It
    knows nothing of predictable gaps.

    Examples
    --------
    >>> young_s(save_s=2, mtbf_s=3600)
    120.0
    """
    _positive(save_s, mtbf_s)
    return math.sqrt(2 * save_s * mtbf_s)


def daly_s(save_s: float, mtbf_s: float) -> float:
    """Return Daly's checkpoint interval for random failures, the time between the ends of saves less one [s].

    Daly (2006), A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22,
    eq. 37; the mean time between failures where a save takes more than twice of it.

    Examples
    --------
    >>> round(daly_s(save_s=2, mtbf_s=3600), 2)
    118.67
    """
    _positive(save_s, mtbf_s)
    if save_s >= 2 * mtbf_s:
        return mtbf_s
    x = math.sqrt(save_s / (2 * mtbf_s))
    return math.sqrt(2 * save_s * mtbf_s) * (1 + x / 3 + x * x / 9) - save_s


def _positive(save_s: float, mtbf_s: float) -> None:
    if not (0 < save_s < math.inf and 0 < mtbf_s < math.inf):
        raise AdviceError(f"save_s and mtbf_s must be positive seconds, got {save_s!r} and {mtbf_s!r}")
