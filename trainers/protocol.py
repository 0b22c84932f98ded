"""PROTOCOL.md as code: the choice of learning rates, and what a set of rows breaks of the rules."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..loader import same_traces
from .records import Row

PROTOCOL = Path(__file__).with_name("PROTOCOL.md")
TUNED_AS = {"uninterrupted": "strong", "strong-fresh-order": "strong"}  # rule 2
SHOWN = 5  # violations of one kind that are spelled out

Key = tuple[str, str, str, bool, str]  # task, method, persists, drift, traces that it was tuned on


class ProtocolError(InputError):
    """Rows that the protocol does not allow to compare."""

    def __init__(self, broken: Sequence[str]):
        self.broken = list(broken)
        more = f" (and {len(broken) - SHOWN} more)" if len(broken) > SHOWN else ""
        super().__init__(
            "these results break the protocol: "
            + "; ".join(broken[:SHOWN])
            + more
            + ": run what is missing, leave out what differs, or insist with --unprotected, and the report says so"
        )


@dataclass(frozen=True, order=True)
class Setup:
    """What the runs of one comparison have in common: task, length, numerics, kind of machine."""

    task: str
    steps: int
    step_s: float
    warmup: float
    precision: str
    threads: int
    torch: str
    device: str

    @property
    def short_task(self) -> str:
        """The task's name for people: the function of ``module:function``."""
        return short_name(self.task)


def short_name(task: str) -> str:
    """Return the last part of ``module:function``, with dashes.

    Examples
    --------
    >>> short_name("orbittrace_data.trainers.sizes:gpt2_wide"), short_name("gpt2-tiny")
    ('gpt2-wide', 'gpt2-tiny')
    """
    return task.rpartition(":")[2].replace("_", "-")


def setup_of(row: Row) -> Setup:
    """Return a finished row's setup."""
    made = json.loads(row["fingerprint"])
    return Setup(
        row["task"],
        row["steps"],
        row["step_s"],
        row["warmup"],
        row["precision"],
        row["threads"],
        made["torch"],
        made["device"],
    )


def by_setup(rows: Iterable[Row]) -> dict[Setup, list[Row]]:
    """Group rows by setup; a failed run, which has no fingerprint, belongs to each setup of its kind."""
    rows = sorted(rows, key=lambda row: (row["config"], row["fingerprint"] or ""))
    groups: dict[Setup, list[Row]] = defaultdict(list)
    for row in rows:
        if row["error"] is None:
            groups[setup_of(row)].append(row)
    for row in rows:
        if row["error"] is not None:
            for setup in groups:
                if (setup.task, setup.steps, setup.step_s) == (row["task"], row["steps"], row["step_s"]):
                    groups[setup].append(row)
    return dict(sorted(groups.items()))


def tuning_key(task: str, method: str, persists: str, drift: bool, tuned_on: str) -> Key:
    """Return what a learning rate is tuned for; the references take strong's."""
    return task, TUNED_AS.get(method, method), persists, drift, tuned_on


def key_of(row: Row) -> Key:
    """Return what a row's learning rate was tuned for."""
    return tuning_key(row["task"], row["method"], row["persists"], bool(row["drift_at"]), row["tuned_on"])


def choose(rows: Iterable[Row]) -> dict[Key, float]:
    """Choose, for each key, the factor of the learning rate with the lowest mean loss in tuning.

    The smaller factor wins a tie; a run that failed or diverged counts as infinite.

    Returns
    -------
    dict
        Factor by key (task, method, what persists, drift, traces tuned on).
    """
    losses: dict[Key, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["stage"] == "tune":
            loss = row["validation_loss"]
            if row["error"] is not None or loss is None or not math.isfinite(loss):
                loss = math.inf
            losses[key_of(row)][row["lr_factor"]].append(loss)
    return {
        key: min(tried, key=lambda factor: (math.fsum(tried[factor]) / len(tried[factor]), factor))
        for key, tried in losses.items()
    }


def at_the_edge(rows: Iterable[Row]) -> list[Key]:
    """Return the keys whose chosen factor is the smallest or greatest that was tried."""
    rows = [row for row in rows if row["stage"] == "tune"]
    tried = defaultdict(set)
    for row in rows:
        tried[key_of(row)].add(row["lr_factor"])
    return [key for key, best in choose(rows).items() if best in (min(tried[key]), max(tried[key]))]


def violations(rows: Sequence[Row]) -> list[str]:
    """Return what a set of rows breaks of the protocol, one sentence each; empty if nothing.

    Parameters
    ----------
    rows : sequence of dict
        As `records.read_rows` returns them.
    """
    broken: list[str] = []
    setups = by_setup(rows)
    for setup, group in setups.items():
        task = f"{setup.short_task} ({setup.steps} steps)"
        tune = [row for row in group if row["stage"] == "tune"]
        report = [row for row in group if row["stage"] == "report"]
        broken += [f"{task}: {what}" for what in _data(group) + splits(tune, report) + _budgets(tune, report)]
        broken += [f"{task}: {what}" for what in _pairs(report)]
    return broken


def check(rows: Sequence[Row]) -> None:
    """Raise what `violations` finds.

    Raises
    ------
    ProtocolError
    """
    broken = violations(rows)
    if broken:
        raise ProtocolError(broken)


def _data(rows: Sequence[Row]) -> list[str]:
    """Rule 3: the traces of one data release, and one data set (one more under drift)."""
    broken = []
    releases = sorted({row["release"] for row in rows if row["release"]})
    if not same_traces(releases):
        broken.append(f"the traces come from the data releases {' and '.join(releases)}")
    for drift in (False, True):
        data = {row["data_sha256"] for row in rows if bool(row["drift_at"]) == drift}
        if len(data) > 1:
            broken.append(f"methods saw {len(data)} different data sets (sha256)")
    return broken


def splits(tune: Sequence[Row], report: Sequence[Row]) -> list[str]:
    """Return what rows break of rule 1: tuned on dev, reported on test, never with the same seed."""
    broken = []
    for rows, wrong, deed in ((tune, "test", "tuned"), (report, "dev", "reported")):
        traces = sorted({row["trace"] for row in rows if row["split"] == wrong})
        if traces:
            broken.append(f"{', '.join(traces)} of the {wrong} split were {deed} on")
    both = {row["seed"] for row in tune} & {row["seed"] for row in report}
    if both:
        broken.append(f"seeds {sorted(both)} were tuned with and reported")
    return broken


def _budgets(tune: Sequence[Row], report: Sequence[Row]) -> list[str]:
    """Rule 2: everyone tried the same, and reports what it chose."""
    tried: dict[Key, set[tuple[float, int]]] = defaultdict(set)
    for row in tune:
        tried[key_of(row)].add((row["lr_factor"], row["seed"]))
    broken = []
    for budget in {frozenset(trials) for trials in tried.values()} if _uneven(tried) else ():
        names = sorted({key[1] for key, trials in tried.items() if trials == budget})
        broken.append(f"{', '.join(names)} had a tuning budget of {len(budget)} runs a trace")
    places: dict[Key, set[str]] = defaultdict(set)
    for row in tune:
        if row["split"] == "dev":  # schedules are tuned on themselves
            places[key_of(row)].add(row["trace"])
    for traces in {frozenset(on) for on in places.values()} if _uneven(places) else ():
        names = sorted({key[1] for key, on in places.items() if on == traces})
        broken.append(f"{', '.join(names)} had the tuning traces {', '.join(sorted(traces))}")
    chosen = choose(tune)
    for key in sorted({key_of(row) for row in report}):
        name = f"{key[1]} ({_regime(key[2], key[3])})"
        used = {row["lr_factor"] for row in report if key_of(row) == key}
        if key not in chosen:
            broken.append(f"{name} was not tuned")
        elif used != {chosen[key]}:
            broken.append(
                f"{name} reports {sorted(used)} of the learning rate where tuning chose {chosen[key]}"
            )
    return broken


def _regime(persists: str, drift: bool) -> str:
    state = "all state persists" if persists == "all" else f"{persists} persists"
    return state + ", drift" * drift


def _uneven(tried: Mapping[Key, AbstractSet[Any]]) -> bool:
    return len({frozenset(trials) for trials in tried.values()}) > 1


def _pairs(report: Sequence[Row]) -> list[str]:
    """Rule 3: under one trace and in one regime, every method ran with the same seeds."""
    seeds: dict[tuple[str, str, bool], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in report:
        if row["seed"] == row["order_seed"]:
            place = (row["trace"], row["persists"], bool(row["drift_at"]))
            seeds[place][row["method"]].add(row["seed"])
    broken = []
    for (trace, persists, drift), methods in sorted(seeds.items()):
        if len({frozenset(s) for s in methods.values()}) > 1:
            said = ", ".join(f"{name} {sorted(s)}" for name, s in sorted(methods.items()))
            broken.append(
                f"seeds differ under {trace} ({persists} persists{', drift' if drift else ''}): {said}"
            )
    return broken
