"""The claims of PROTOCOL.md, measured on rows: each a difference by seed, a region, a verdict."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .protocol import Setup, at_the_edge, by_setup, key_of, short_name
from .records import Row
from .statistics import Estimate, NoiseFloor, StatisticsError, estimate, holm, noise_floor, ratio, region_test

HOLDS, FAILS = "holds", "does not hold"
UNDECIDED, NOT_RUN = "undecided at this scale", "not run at this scale"
DECIDED_AT = 0.05
ALMOST_ALL = 0.8
TASKS = ("gpt2-tiny", "resnet-mnist", "gpt2-small", "resnet18-cifar10")
REFERENCES = ("uninterrupted", "strong", "strong-fresh-order")

STATEMENTS = {
    "exact": "strong is uninterrupted, bit for bit",
    "fresh-order": "strong with a fresh data order after each gap is uninterrupted, up to noise",
    "weak-pays": "weak pays for its gaps",
    "aat-over-weak": "AAT gains over weak",
    "explained": "strong alone explains almost all (0.8) of AAT's gain over weak",
    "wall-horizon": "weak that knows the total wall time pays nothing",
    "stationary": "adaptation gains nothing over strong: stationary",
    "state-loss": "adaptation gains nothing over strong: state loss",
    "drift": "adaptation gains nothing over strong: drift",
    "loss-costs": "losing the optimizer's state at each gap costs",
    "recovers": "a decayed moment recovers part of the state-loss penalty when pauses are brief",
    "vanishes": "that vanishes as pauses grow to the scale of an eclipse",
}

Cell = dict[str, dict[int, float]]  # by trace, by seed: the final validation loss


@dataclass(frozen=True)
class Verdict:
    """One claim in one task.

    Parameters
    ----------
    claim : str
        A key of `STATEMENTS`.
    task : str
    setup : Setup or None
        None where it was not run.
    compared : str
        The difference that was taken.
    verdict : str
    difference : Estimate or None
        Its mean over seeds with the 95% interval; None where bits are compared, or nothing ran.
    region : (float, float)
        Where the claim says that the mean lies.
    p : float
        Against the nearest border of the region, corrected by Holm over the methods of the claim.
    floor : NoiseFloor or None
    share : Estimate or None
        The share that is explained or recovered, where the denominator's interval excludes 0.
    traces : tuple of str
    untuned : tuple of str
        Verdicts that are barred, because the side that would lose by them was not tuned to an optimum
        inside the grid.
    note : str
    """

    claim: str
    task: str
    setup: Setup | None
    compared: str
    verdict: str
    difference: Estimate | None = None
    region: tuple[float, float] = (-math.inf, math.inf)
    p: float = 1.0
    floor: NoiseFloor | None = None
    share: Estimate | None = None
    traces: tuple[str, ...] = ()
    untuned: tuple[str, ...] = ()
    note: str = ""


class Runs:
    """The reported runs of one setup, looked up by method and regime."""

    def __init__(self, setup: Setup, rows: Sequence[Row]):
        self.setup = setup
        report = [row for row in rows if row["stage"] == "report"]
        self.rows = [row for row in report if _came_to_an_end(row)]
        self.failed = [row for row in report if not _came_to_an_end(row)]
        self._edges = set(at_the_edge(rows))
        try:
            self.floor: NoiseFloor | None = noise_floor(list(self._orders()))
        except StatisticsError:
            self.floor = None

    def _orders(self) -> Iterator[list[float]]:
        orders = defaultdict(list)
        for row in self.rows:
            if row["method"] == "uninterrupted" and not row["drift_at"] and row["persists"] == "all":
                orders[row["seed"]].append(row["validation_loss"])
        return iter(orders.values())

    def select(self, method: str, persists: str = "all", drift: bool = False) -> list[Row]:
        """Return the rows of a method in a regime that keep to their seed's own data order."""
        return _of(self.rows, method, persists, drift)

    def losses(self, method: str, persists: str = "all", drift: bool = False) -> Iterator[tuple[Row, float]]:
        """Return each run of a method in a regime with its loss: NaN where it failed or diverged."""
        yield from ((row, row["validation_loss"]) for row in _of(self.rows, method, persists, drift))
        yield from ((row, math.nan) for row in _of(self.failed, method, persists, drift))

    def untuned(self, method: str, persists: str = "all", drift: bool = False, pauses: bool = False) -> bool:
        """Tell whether the best learning rate of a method lies at the end of the grid that was tried."""
        rows = (row for row in self.select(method, persists, drift) if is_pause(row) == pauses)
        return any(key_of(row) in self._edges for row in rows)

    def cell(self, method: str, persists: str = "all", drift: bool = False) -> Cell:
        """Return losses by trace and seed, schedules of periodic pauses left out."""
        cell: Cell = defaultdict(dict)
        for row, loss in self.losses(method, persists, drift):
            if not is_pause(row):
                cell[row["trace"]][row["seed"]] = loss
        return dict(cell)

    def methods(self, persists: str = "all", drift: bool = False, pauses: bool = False) -> list[str]:
        """Return the methods that ran in a regime, in order of their first row's name."""
        return sorted(
            {
                row["method"]
                for row in self.rows + self.failed
                if (row["persists"], bool(row["drift_at"])) == (persists, drift) and is_pause(row) == pauses
            }
        )


def _came_to_an_end(row: Row) -> bool:
    """Tell whether a run ended with a finite loss; one that diverged counts as failed."""
    return row["error"] is None and math.isfinite(row["validation_loss"])


def _of(rows: Iterable[Row], method: str, persists: str, drift: bool) -> list[Row]:
    wanted = (method, persists, drift)
    return [
        row
        for row in rows
        if (row["method"], row["persists"], bool(row["drift_at"])) == wanted
        and row["seed"] == row["order_seed"]
    ]


def is_pause(row: Row) -> bool:
    """Tell whether a run went under periodic pauses, which belong to the phase diagram alone."""
    return row["trace"].startswith("pause-")


def align(*cells: Cell) -> tuple[tuple[str, ...], list[int], list[NDArray[np.float64]]]:
    """Average each cell over the traces that all have, seed by seed.

    A cell that ran without gaps stands for every trace.

    Returns
    -------
    traces : tuple of str
    seeds : list of int
        That every cell has under every one of these traces.
    values : list of ndarray, shape (seeds,)
        One a cell; empty where there is nothing in common.
    """
    named = [set(cell) for cell in cells if set(cell) != {"no-gaps"}]
    traces = sorted(set.intersection(*named)) if named else ["no-gaps"]
    spread = [dict.fromkeys(traces, cell["no-gaps"]) if set(cell) == {"no-gaps"} else cell for cell in cells]
    if not traces or not all(cells):
        return (), [], [np.empty(0) for _ in cells]
    seeds = sorted(set.intersection(*(set(cell[trace]) for cell in spread for trace in traces)))
    values = [np.array([[cell[t][s] for t in traces] for s in seeds]).mean(axis=1) for cell in spread]
    return tuple(traces), seeds, values


def on_the_traces_of(required: Cell, cell: Cell) -> Cell:
    """Keep the traces that a comparison is about; empty where one of them is missing, all without gaps."""
    if set(cell) == {"no-gaps"}:
        return cell
    return {trace: cell[trace] for trace in required} if set(required) <= set(cell) else {}


def verdicts(rows: Iterable[Row]) -> list[Verdict]:
    """Measure every claim in every setup, and say where one was not run.

    Examples
    --------
    >>> {v.verdict for v in verdicts([])}
    {'not run at this scale'}
    """
    found: list[Verdict] = []
    for setup, group in by_setup(rows).items():
        found += corrected(list(measured(Runs(setup, group))))
    order = {claim: place for place, claim in enumerate(STATEMENTS)}
    ran = {(v.claim, v.task) for v in found}
    found += [
        Verdict(claim, task, None, "", NOT_RUN)
        for claim in STATEMENTS
        for task in TASKS
        if (claim, task) not in ran and not (claim in ("recovers", "vanishes") and "resnet" in task)
    ]
    tasks = {task: place for place, task in enumerate(TASKS)}
    return sorted(found, key=lambda v: (order[v.claim], tasks.get(v.task, len(tasks))))


def corrected(found: Sequence[Verdict]) -> list[Verdict]:
    """Correct p over the methods that answer one claim, and decide."""
    families = defaultdict(list)
    for place, verdict in enumerate(found):
        if verdict.difference is not None:
            families[verdict.claim].append(place)
    result = list(found)
    for family in families.values():
        for place, p in zip(family, holm([found[k].p for k in family]), strict=True):
            v = found[place]
            assert v.difference is not None
            inside = v.region[0] < v.difference.mean < v.region[1]
            decided = HOLDS if inside else FAILS
            if decided in v.untuned and p <= DECIDED_AT:
                note = "the losing side's best learning rate lies at the end of the grid"
                v = replace(v, note="; ".join(filter(None, [v.note, note])))
            if p > DECIDED_AT or v.verdict == UNDECIDED or decided in v.untuned:
                decided = UNDECIDED
            result[place] = replace(v, p=p, verdict=decided)
    return result


def measured(runs: Runs) -> Iterator[Verdict]:
    """Measure the claims in one setup; p is not corrected yet."""
    task, setup = runs.setup.short_task, runs.setup
    floor = runs.floor.sd if runs.floor else math.nan

    def verdict(
        claim: str,
        compared: str,
        cells: Sequence[Cell],
        contrast: Callable[..., Any],
        region: Any,
        required: Cell | None = None,
    ):
        whole = [on_the_traces_of(required, one) for one in cells] if required else cells
        traces, seeds, values = align(*whole)
        base = Verdict(claim, task, setup, compared, "", floor=runs.floor, traces=traces, region=region)
        lacking = required and all(cells) and not all(whole)
        if lacking or any(np.isnan(value).any() for value in values):  # rule 5: nothing is left out
            note = "a trace is missing" if lacking else "a run failed or diverged"
            return replace(base, verdict=UNDECIDED, note=f"{note}: not compared")
        if not seeds:
            return None
        difference = contrast(*values)
        if any(math.isnan(border) for border in region):
            return replace(
                base, verdict=UNDECIDED, difference=estimate(difference), note="no noise floor was measured"
            )
        p = region_test(difference, *region)[1]
        return replace(base, difference=estimate(difference), p=p)

    def minus(a: Any, b: Any) -> Any:
        return a - b

    def barred(**losers: bool) -> dict[str, tuple[str, ...]]:
        """Name the verdicts whose losing side was not tuned."""
        return {"untuned": tuple({"holds": HOLDS, "fails": FAILS}[name] for name in losers if losers[name])}

    above, within, below = (0.0, math.inf), (-floor, floor), (-math.inf, floor)
    cell = runs.cell
    reference, strong, weak, aat = (cell(m) for m in ("uninterrupted", "strong", "weak", "aat"))

    found = [exact(runs)]
    fresh = cell("strong-fresh-order")
    found.append(
        verdict(
            "fresh-order", "strong-fresh-order - uninterrupted", (fresh, reference), minus, within, strong
        )
    )
    weak_pays = verdict("weak-pays", "weak - strong", (weak, strong), minus, above, strong)
    gain = verdict("aat-over-weak", "weak - aat", (weak, aat), minus, above, strong)
    untuned = runs.untuned
    found.append(weak_pays and replace(weak_pays, **barred(holds=untuned("weak"), fails=untuned("strong"))))
    found.append(gain and replace(gain, **barred(holds=untuned("weak"), fails=untuned("aat"))))
    if gain is not None:
        explained = verdict(
            "explained",
            f"(weak - strong) - {ALMOST_ALL} (weak - aat)",
            (weak, strong, aat),
            lambda w, s, a: (w - s) - ALMOST_ALL * (w - a),
            above,
            strong,
        )
        if explained is not None and explained.difference is not None:
            _, _, (w, s, a) = align(*(on_the_traces_of(strong, one) for one in (weak, strong, aat)))
            share = ratio(w - s, w - a)
            losers = barred(holds=untuned("aat") or untuned("weak"), fails=untuned("strong"))
            explained = replace(explained, share=share, **losers)
            if share is None or gain.difference is None or gain.difference.mean < 0:
                explained = replace(
                    explained, share=None, verdict=UNDECIDED, note="AAT's gain over weak is not established"
                )
        found.append(explained)
    wall = cell("weak-wall-horizon")
    horizon = verdict("wall-horizon", "weak-wall-horizon - strong", (wall, strong), minus, within, strong)
    losers = barred(holds=untuned("strong"), fails=untuned("weak-wall-horizon"))
    found.append(horizon and replace(horizon, **losers))

    for claim, persists, drift in (
        ("stationary", "all", False),
        ("state-loss", "nothing", False),
        ("state-loss", "m", False),
        ("state-loss", "v", False),
        ("drift", "all", True),
    ):
        base = cell("strong", persists, drift)
        kept = f", {persists} persists" if persists != "all" else ""
        for method in runs.methods(persists, drift):
            if method not in REFERENCES and not method.startswith(("weak-", "weak+re")) and method != "weak":
                cells = (base, cell(method, persists, drift))
                v = verdict(claim, f"strong - {short_name(method)}{kept}", cells, minus, below, base)
                losers = barred(
                    holds=untuned(method, persists, drift), fails=untuned("strong", persists, drift)
                )
                found.append(v and replace(v, **losers))

    lost = cell("strong", "nothing")
    costs = verdict("loss-costs", "strong, nothing persists - uninterrupted", (lost, reference), minus, above)
    found.append(
        costs and replace(costs, **barred(holds=untuned("strong", "nothing"), fails=untuned("uninterrupted")))
    )
    for phase in phases(runs):
        for claim, region, chosen in (("recovers", above, phase.brief), ("vanishes", below, phase.long)):
            if chosen:
                names = f"strong, nothing persists - {phase.method}, {phase.persists} persists"
                where = f"{names}; pauses of {phase.delta:.0f} every {phase.window_steps:.0f} steps"
                v = verdict(claim, where, (phase.lost, phase.kept), minus, region)
                if v is not None:
                    sides = (
                        untuned("strong", "nothing", pauses=True),
                        untuned(phase.method, phase.persists, pauses=True),
                    )
                    holds, fails = sides if claim == "recovers" else sides[::-1]
                    losers = barred(holds=holds, fails=fails)
                    found.append(replace(v, share=phase.recovered, note=phase.note, **losers))
    yield from (v for v in found if v is not None)


def exact(runs: Runs) -> Verdict | None:
    """Compare the bits of every strong run with those of the uninterrupted run of its seed."""
    same, different = 0, 0
    for drift in (False, True):
        whole = {row["seed"]: row for row in runs.select("uninterrupted", "all", drift)}
        for row in runs.select("strong", "all", drift):
            there = whole.get(row["seed"])
            if there is not None and there["lr"] == row["lr"] and row["gaps"]:
                equal = (
                    there["state_sha256"] == row["state_sha256"] and there["curve_loss"] == row["curve_loss"]
                )
                same, different = same + equal, different + (not equal)
    if not same + different:
        return None
    return Verdict(
        "exact",
        runs.setup.short_task,
        runs.setup,
        "sha256 of weights, buffers and optimizer state",
        FAILS if different else HOLDS,
        note=f"equal in {same} of {same + different} runs",
    )


# The phase diagram --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """Reconstruction at one frequency and length of pauses, against losing everything.

    ``lost``, ``kept`` and ``whole`` are the losses of strong with nothing, of the method with one moment,
    and of the uninterrupted run.
    """

    window_steps: float
    delta: float
    method: str
    persists: str
    lost: Cell
    kept: Cell
    whole: Cell
    brief: bool
    long: bool

    @property
    def penalty(self) -> Estimate:
        """What losing everything costs."""
        lost, _, whole = align(self.lost, self.kept, self.whole)[2]
        return estimate(lost - whole)

    @property
    def gain(self) -> Estimate:
        """What the method wins back."""
        lost, kept, _ = align(self.lost, self.kept, self.whole)[2]
        return estimate(lost - kept)

    @property
    def recovered(self) -> Estimate | None:
        """The share of the penalty that is won back; None where the penalty's interval includes 0."""
        lost, kept, whole = align(self.lost, self.kept, self.whole)[2]
        return ratio(lost - kept, lost - whole) if self.penalty.low > 0 else None

    @property
    def note(self) -> str:
        """Why there is no recovered share."""
        return "" if self.recovered else "no share: the penalty's interval includes 0"


def phases(runs: Runs) -> list[Phase]:
    """Return every point of the phase diagram that ran, by persists, method, frequency and length."""
    whole = runs.cell("uninterrupted")
    lost: dict[float, tuple[float, Cell]] = {}  # of each frequency the shortest pause (PROTOCOL.md)
    for row, loss in runs.losses("strong", "nothing"):
        if is_pause(row):
            shortest, cell = lost.get(row["window_steps"], (math.inf, {}))
            if row["delta"] < shortest:
                shortest, cell = row["delta"], {"": {}}
            if row["delta"] == shortest:
                cell[""][row["seed"]] = loss
            lost[row["window_steps"]] = (shortest, cell)
    kept: dict[tuple[str, str, float, float], dict[int, float]] = defaultdict(dict)
    for persists in ("m", "v"):
        for method in runs.methods(persists, pauses=True):
            for row, loss in runs.losses(method, persists):
                if is_pause(row) and row["window_steps"] in lost:
                    kept[persists, method, row["window_steps"], row["delta"]][row["seed"]] = loss
    found = []
    for (persists, method, window_steps, delta), cell in sorted(kept.items()):
        deltas = [key[3] for key in kept if key[:3] == (persists, method, window_steps)]
        points = (lost[window_steps][1], {"": cell}, {"": whole.get("no-gaps", {})})
        values = align(*points)[2]
        if all(len(value) and np.isfinite(value).all() for value in values) and "reconstruct" in method:
            brief, long = delta == min(deltas), delta == max(deltas) and len(deltas) > 1
            found.append(Phase(window_steps, delta, method, persists, *points, brief, long))
    return found
