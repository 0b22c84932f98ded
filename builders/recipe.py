"""The recipe of a release: which element sets, which satellites, when, for how long, which model."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..errors import InputError
from ..manifest import VersionError, check_version
from ..power_model import PowerModel
from ..trace import DAY_MS
from .contacts import check_span
from .element_set import ElementSet, format_epoch
from .gp import load, read_element_sets
from .satellite_trace import next_day_ms, regime_of, span_of_days
from .selection import Selected, SelectionError, read_selection
from .shadow import ShadowModel
from .snapshot import Snapshot, read_snapshot

# The frozen benchmark: what each data version was built from. Entries are added, never changed.
BENCHMARK_SNAPSHOT = {"1.0.0": "2024-09-22", "1.1.0": "2024-09-22"}
BENCHMARK_START_MS = {"1.0.0": 1_727_049_600_000, "1.1.0": 1_727_049_600_000}  # 2024-09-23T00:00:00Z
BENCHMARK_SPAN_MS = 14 * DAY_MS
# Of the config ``energy``; the figures' sources stand in orbittrace_data/spacecraft/cubesat-6u.toml.
BENCHMARK_POWER = {
    "1.0.0": None,
    "1.1.0": PowerModel(
        name="cubesat-6u",
        panel_w=44.0,
        battery_wh=40.0,
        load_w=33.0,
        idle_w=8.0,
        charge_efficiency=0.9,
        min_soc=0.7,
        resume_soc=0.9,
        initial_soc=1.0,
        sun_angle_deg=0.0,
    ),
}
LATEST = "1.1.0"
DERIVED_VERSION = "0.1.0"

STALE_ELEMENTS_MS = 14 * DAY_MS
MOST_NAMED = 100  # satellites in one remark
MEANINGLESS_DAYS = 60  # drag makes the along-track error grow with the square of the time

UNKNOWN_TERMS = (
    "The terms of these element sets are those of where they came from: check them before passing them on. "
    "Not for conjunction assessment."
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a release's rows.

    ``selected`` gives the satellites in the order of the rows; ``start_ms`` is Unix ms, UTC. With ``power``
    there is a config ``energy``.
    """

    snapshot: Snapshot
    selected: tuple[Selected, ...]
    start_ms: int
    span_ms: int = BENCHMARK_SPAN_MS
    model: ShadowModel = field(default_factory=ShadowModel)
    version: str = DERIVED_VERSION
    kind: Literal["benchmark", "derived"] = "derived"
    power: PowerModel | None = None


def benchmark_recipe(version: str = LATEST) -> Recipe:
    """Return what a frozen data version was built from.

    Raises
    ------
    VersionError
        With the versions that exist.

    Examples
    --------
    >>> benchmark_recipe("1.0.0").snapshot.name
    '2024-09-22'
    """
    if version not in BENCHMARK_SNAPSHOT:
        raise VersionError(f"there is no data version {version}; there are {', '.join(BENCHMARK_SNAPSHOT)}")
    return Recipe(
        snapshot=read_snapshot(BENCHMARK_SNAPSHOT[version]),
        selected=read_selection(),
        start_ms=BENCHMARK_START_MS[version],
        version=version,
        kind="benchmark",
        power=BENCHMARK_POWER[version],
    )


def make_recipe(
    source: str | Path = BENCHMARK_SNAPSHOT[LATEST],
    *,
    start_ms: int | None = None,
    days: float = BENCHMARK_SPAN_MS / DAY_MS,
    min_sunlight: float = 0.5,
    select: str | Path | None = None,
    catalog: Sequence[int] = (),
    everything: bool = False,
    version: str | None = None,
    power: PowerModel | None = None,
) -> tuple[Recipe, list[str]]:
    """Turn what a person asks for into a recipe; the benchmark's own if it comes to that.

    Parameters
    ----------
    source : str or Path
        A bundled snapshot's name, a snapshot folder, or a file of element sets in any format.
    start_ms : int, optional
        Unix ms, UTC; by default 0 h of the day after the newest epoch.
    days : float
    min_sunlight : float
        In (0, 1].
    select, catalog, everything
        A selection file, catalogue numbers, or all; by default the benchmark's selection as far as
        the snapshot has it. One of them at most.
    version : str, optional
        The data version: of a derived release, by default 0.1.0, or which of the benchmark's frozen ones,
        by default the latest.
    power : PowerModel, optional
        Of the config ``energy``. Without it the benchmark takes its own, and a derived release has none.

    Returns
    -------
    (Recipe, list of str)
        The recipe, and remarks for the person: what is missing, and what is old.

    Raises
    ------
    InputError
        If nothing is left to build, or the options exclude each other.
    """
    if sum([select is not None, bool(catalog), everything]) > 1:
        raise InputError("give one of --select, --catalog and --all, not several")
    snapshot, remarks = _element_sets(source)
    by_number = {e.catalog_number: e for e in snapshot.element_sets if e.catalog_number}
    if not by_number:
        raise InputError(
            f"no record of {snapshot.name} has a catalogue number, and a trace is named by it: "
            "write NORAD_CAT_ID into the records"
        )
    if everything:
        selected = tuple(Selected(number, "test") for number in by_number)
        unnumbered = len(snapshot.element_sets) - len(by_number)
        if unnumbered:
            remarks.append(
                f"{unnumbered} records of {snapshot.name} have no catalogue number and are left out: a trace is "
                "named by it"
            )
    elif catalog:
        selected = tuple(Selected(number, "test") for number in dict.fromkeys(catalog))
    else:
        selected = read_selection() if select is None else read_selection(select)
    missing = [s.catalog_number for s in selected if s.catalog_number not in by_number]
    if missing:
        remarks.append(
            f"{snapshot.name} has no element set for {len(missing)} of {len(selected)} satellites: "
            + ", ".join(map(str, missing))
        )
    selected = tuple(s for s in selected if s.catalog_number in by_number)
    if not selected:
        raise InputError(f"{snapshot.name} has an element set for none of the satellites that were asked for")
    chosen = [by_number[s.catalog_number] for s in selected]
    if start_ms is None:
        start_ms = next_day_ms(max(e.epoch_us for e in chosen))
    span_ms = span_of_days(days)
    check_span(start_ms, span_ms)
    recipe = Recipe(
        snapshot=snapshot,
        selected=selected,
        start_ms=start_ms,
        span_ms=span_ms,
        model=ShadowModel(min_sunlight=min_sunlight),
        power=power,
    )
    same = [
        frozen
        for frozen, name in BENCHMARK_SNAPSHOT.items()
        if snapshot.name == name and _same(recipe, benchmark_recipe(frozen))
    ]
    if same:
        if version not in (None, *same):
            raise InputError(
                f"these are the rows of the benchmark, whose version is {' or '.join(same)}; asked for {version}"
            )
        return benchmark_recipe(version or same[-1]), remarks
    # A derived release has no dev split: its satellites were not stratified by this project.
    derived = tuple(
        Selected(s.catalog_number, "test", s.regime if select else None, s.reason) for s in selected
    )
    remarks += _old(chosen, start_ms)
    version = check_version(version or DERIVED_VERSION)
    return replace(recipe, selected=derived, version=version), remarks


def chosen_elements(recipe: Recipe) -> list[ElementSet]:
    """Return the element sets of a recipe's satellites, in its order.

    Raises
    ------
    SelectionError
        If the snapshot lacks one, or its regime is not the one that the selection states.
    """
    by_number = {e.catalog_number: e for e in recipe.snapshot.element_sets}
    missing = [s.catalog_number for s in recipe.selected if s.catalog_number not in by_number]
    if missing:
        raise SelectionError(
            f"snapshot {recipe.snapshot.name} has no element set for {', '.join(map(str, missing))}: "
            "leave them out of the selection, or use another snapshot"
        )
    elements = [by_number[s.catalog_number] for s in recipe.selected]
    for chosen, one in zip(recipe.selected, elements, strict=True):
        if chosen.regime not in (None, regime_of(one)):
            raise SelectionError(
                f"satellite {one.catalog_number} ({one.name}) is {regime_of(one)} by its elements, "
                f"the selection says {chosen.regime}: correct the selection"
            )
    return elements


def _same(recipe: Recipe, frozen: Recipe) -> bool:
    """Tell whether what was asked for is a frozen version; whoever names no power system asks for none other."""
    return recipe.power in (None, frozen.power) and (
        recipe.snapshot.digest,
        recipe.selected,
        recipe.start_ms,
        recipe.span_ms,
        recipe.model,
    ) == (
        frozen.snapshot.digest,
        frozen.selected,
        frozen.start_ms,
        frozen.span_ms,
        frozen.model,
    )


def _element_sets(source: str | Path) -> tuple[Snapshot, list[str]]:
    """Read a snapshot, or take a plain file of element sets for one."""
    path = Path(source)
    if not os.path.isfile(path):  # noqa: PTH113 - False, not an error, for a name that no system can hold
        return read_snapshot(source), []
    content, called = load(path)
    reading = read_element_sets(content, called=called)
    if not reading.element_sets:
        raise InputError(f"{path} holds no element set that can be used: {reading.problems[0]}")
    epochs = [e.epoch_us for e in reading.element_sets]
    sha256 = hashlib.sha256(content).hexdigest()
    remarks = [f"{path}: {problem}" for problem in reading.problems]
    return (
        Snapshot(
            name=path.name,
            element_sets=reading.element_sets,
            source=f"The file {path.name}.",
            retrieved="",
            oldest_epoch=format_epoch(min(epochs)),
            newest_epoch=format_epoch(max(epochs)),
            elements_file=path.name,
            elements_sha256=sha256,
            licence_notice=UNKNOWN_TERMS,
            citation=f"the file {path.name}, sha256 {sha256}",
            digest=sha256,
        ),
        remarks,
    )


def _old(elements: Sequence[ElementSet], start_ms: int) -> list[str]:
    old = [e for e in elements if start_ms - e.epoch_us // 1000 > STALE_ELEMENTS_MS]
    if not old:
        return []
    worst = min(old, key=lambda e: e.epoch_us)
    days = (start_ms - worst.epoch_us // 1000) / DAY_MS
    named = ", ".join(str(e.catalog_number) for e in old[:MOST_NAMED]) + (
        ", ..." if len(old) > MOST_NAMED else ""
    )
    return [
        f"{len(old)} of {len(elements)} element sets are more than 14 days old at the start ({named}; "
        f"{worst.catalog_number} is {days:.0f} days old): {staleness(days)}"
    ]


def staleness(age_days: float) -> str:
    """Say what the age of an element set does to its contacts, past 14 days.

    Examples
    --------
    >>> staleness(20), staleness(400)
    ('their contacts may be minutes off', 'their contacts say nothing about these dates')
    """
    if age_days <= MEANINGLESS_DAYS:
        return "their contacts may be minutes off"
    return "their contacts say nothing about these dates"
