"""Verify a release: every digest, then its rows against a rebuild from the element sets."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..digest import content_digest
from ..errors import FailedError
from ..loader import open_release
from ..manifest import CARD_NAME, Manifest, ReleaseError
from .element_set import ElementSet
from .recipe import Recipe
from .release import snapshot_of, tables_by_split
from .selection import Selected
from .shadow import ShadowModel
from .snapshot import Snapshot, SnapshotError, read_snapshot
from .tables import element_sets_of


class VerificationError(FailedError):
    """A release that does not hold, or that a rebuild does not give again."""


@dataclass(frozen=True)
class Verification:
    """What was checked: files and rows, and where the element sets for the rebuild came from."""

    files: int
    rows: int
    rebuilt_from: str


def verify_release(source: str | Path | None = None, version: str | None = None) -> Verification:
    """Check every digest of a release, rebuild it and compare rows and schema.

    Parameters
    ----------
    source : str or Path, optional
        As for `orbittrace_data.load_traces`; the bundled release by default.
    version : str, optional

    Returns
    -------
    Verification

    Raises
    ------
    ReleaseError
        If a file is missing or was changed.
    VerificationError
        Naming the first rows that the rebuild gives otherwise.
    """
    folder, manifest = open_release(source, version)
    stored = stored_tables(folder, manifest)
    for file in manifest.files:
        table = pq.ParquetFile(folder / file.path).read()
        if content_digest(table) != file.content_digest:
            raise ReleaseError(
                f"{folder / file.path}: its rows do not have the content digest of the manifest"
            )
    recipe, origin = recipe_of(manifest, stored)
    for split, tables in tables_by_split(recipe).items():
        for config, rebuilt in tables.items():
            compare_tables(stored.get((config, split)), rebuilt, f"{folder / CARD_NAME}: {config}/{split}")
    return Verification(len(manifest.files), sum(f.rows for f in manifest.files), origin)


def stored_tables(folder: Path, manifest: Manifest) -> dict[tuple[str, str], pa.Table]:
    """Read all data of a release, its shards joined: ``{(config, split): table}``."""
    shards: dict[tuple[str, str], list[pa.Table]] = {}
    for file in manifest.files:
        table = pq.ParquetFile(folder / file.path).read()
        shards.setdefault((file.config, file.split), []).append(table)
    return {key: pa.concat_tables(tables) for key, tables in shards.items()}


def recipe_of(manifest: Manifest, stored: dict[tuple[str, str], pa.Table]) -> tuple[Recipe, str]:
    """Return what a release was built from, and where its element sets were found."""
    selected, elements = [], []
    for split in ("dev", "test"):
        if ("elements", split) in stored:
            found = element_sets_of(stored["elements", split])
            elements += found
            selected += [Selected(e.catalog_number, split) for e in found]
    snapshot, origin = _snapshot(manifest, elements)
    recipe = Recipe(
        snapshot=snapshot,
        selected=tuple(selected),
        start_ms=manifest.start_ms,
        span_ms=manifest.span_ms,
        model=ShadowModel(**manifest.model),
        version=manifest.version,
        kind=manifest.kind,
    )
    return recipe, origin


def compare_tables(stored: pa.Table | None, rebuilt: pa.Table, what: str) -> None:
    """Raise a VerificationError that shows the first difference between two tables, if there is one."""
    if stored is None:
        if rebuilt.num_rows:
            raise VerificationError(
                f"{what} is not in the release, the rebuild gives {rebuilt.num_rows} rows"
            )
        return
    mine, theirs = _columns(stored), _columns(rebuilt)
    if mine != theirs:
        odd = sorted(set(mine) ^ set(theirs))
        raise VerificationError(f"{what} has another schema than the rebuild: {odd[0]} is on one side only")
    if content_digest(stored) == content_digest(rebuilt):
        return
    left, right = stored.to_pylist(), rebuilt.to_pylist()
    different = [i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b]
    first = different[0] if different else min(len(left), len(right))
    raise VerificationError(
        f"{what}: {len(left)} rows stored, {len(right)} rebuilt, the first difference is row {first}: "
        f"stored {_brief(left, right, first)}, rebuilt {_brief(right, left, first)}"
    )


def _columns(table: pa.Table) -> list[tuple[str, str]]:
    return [(f.name, "list<int64>" if pa.types.is_list(f.type) else str(f.type)) for f in table.schema]


def _brief(rows: list[dict], others: list[dict], index: int) -> str:
    """Show a row's id and the columns in which it differs."""
    if index >= len(rows):
        return "nothing"
    row = rows[index]
    other = others[index] if index < len(others) else {}
    shown = {k: v for k, v in row.items() if k == "trace_id" or other.get(k) != v}
    text = ", ".join(f"{k}={v}" for k, v in shown.items())
    return text if len(text) < 300 else text[:297] + "..."


def _snapshot(manifest: Manifest, elements: list[ElementSet]) -> tuple[Snapshot, str]:
    """Find the element sets: the snapshot of that name if it is the same, else the release's own."""
    facts = manifest.snapshot
    try:
        snapshot = read_snapshot(facts["name"])
    except SnapshotError:
        snapshot = None
    if snapshot is not None and snapshot.digest == facts["digest"]:
        frozen = {e.catalog_number: e for e in snapshot.element_sets}
        for one in elements:
            if frozen.get(one.catalog_number) != one:
                raise VerificationError(
                    f"the element set of {one.catalog_number} in this release is not that of snapshot {snapshot.name}"
                )
        return snapshot, f"snapshot {snapshot.name}"
    if manifest.kind == "benchmark":
        raise VerificationError(
            f"data version {manifest.version} was built from snapshot {facts['name']}, which this package does not "
            "have (or not with that digest): install the version of orbittrace-data that published it"
        )
    return snapshot_of(facts, elements), "its own element sets"
