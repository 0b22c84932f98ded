"""The secondary measures: accuracy, the loss half-way, and how soon a run gets where it should."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .claims import Cell, Runs, align, is_pause
from .records import Row
from .statistics import Estimate, estimate


@dataclass(frozen=True)
class Secondary:
    """One method in one regime, beside strong in the same regime.

    Parameters
    ----------
    method, persists : str
    drift : bool
    loss : float
        Mean final validation loss.
    accuracy : Estimate or None
        Difference of the final accuracy to strong's; None where the task has none.
    halfway : Estimate or None
        Difference of the validation loss half-way through the active time to strong's.
    target_share : float
        Mean share of the active time until the validation loss is down to the uninterrupted run's final one
        plus one noise floor, over the runs that got there.
    reached, runs : int
        How many did, of how many.
    """

    method: str
    persists: str
    drift: bool
    loss: float
    accuracy: Estimate | None
    halfway: Estimate | None
    target_share: float
    reached: int
    runs: int


def secondary(runs: Runs) -> list[Secondary]:
    """Measure every method in every regime that ran, pauses of the phase diagram left out."""
    found = []
    for persists, drift in (("all", False), ("nothing", False), ("m", False), ("v", False), ("all", True)):
        strong = _rows(runs, "strong", persists, drift)
        targets = {
            row["seed"]: row["validation_loss"] + (runs.floor.sd if runs.floor else 0.0)
            for row in runs.select("uninterrupted", "all", drift)
        }
        for method in runs.methods(persists, drift):
            rows = _rows(runs, method, persists, drift)
            shares = [_reaches(row, targets[row["seed"]]) for row in rows if row["seed"] in targets]
            got_there = [share for share in shares if math.isfinite(share)]
            found.append(
                Secondary(
                    method,
                    persists,
                    drift,
                    float(np.mean([row["validation_loss"] for row in rows])),
                    _difference(rows, strong, _accuracy) if method != "strong" else None,
                    _difference(rows, strong, _halfway) if method != "strong" else None,
                    float(np.mean(got_there)) if got_there else math.nan,
                    len(got_there),
                    len(shares),
                )
            )
    return found


def _rows(runs: Runs, method: str, persists: str, drift: bool) -> list[Row]:
    return [row for row in runs.select(method, persists, drift) if not is_pause(row)]


def _difference(
    rows: list[Row], strong: list[Row], measure: Callable[[Row], float | None]
) -> Estimate | None:
    """Return the paired difference of a measure, None where a run lacks it."""
    cells: list[Cell] = []
    for side in (rows, strong):
        cell: Cell = {}
        for row in side:
            value = measure(row)
            if value is None:
                return None
            cell.setdefault(row["trace"], {})[row["seed"]] = value
        cells.append(cell)
    _, seeds, values = align(*cells)
    return estimate(values[0] - values[1]) if seeds else None


def _accuracy(row: Row) -> float | None:
    return row["accuracy"]


def _halfway(row: Row) -> float | None:
    return dict(zip(row["evaluated_step"], row["evaluated_loss"], strict=True)).get(row["steps"] // 2)


def _reaches(row: Row, target: float) -> float:
    """Return the share of the active time at the first evaluation at or below the target, or infinity."""
    for step, loss in zip(row["evaluated_step"], row["evaluated_loss"], strict=True):
        if loss <= target:
            return step / row["steps"]
    return math.inf
