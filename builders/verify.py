"""Verify a release: every digest, then its rows against a rebuild from the element sets."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from ..digest import content_digest
from ..errors import FailedError, InputError
from ..loader import open_release
from ..manifest import CARD_NAME, DataFile, Manifest, ReleaseError
from ..power_model import PowerModel
from ..schema import CONFIGS
from .card import check_card
from .catalogue import Crew, build_data
from .element_set import ElementSet
from .recipe import Recipe
from .release import snapshot_of
from .selection import Selected
from .shadow import ShadowModel
from .shards import SPLITS
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


def verify_release(
    source: str | Path | None = None, version: str | None = None, crew: Crew | None = None
) -> Verification:
    """Check every digest of a release, rebuild it and compare rows and schema.

    Parameters
    ----------
    source : str or Path, optional
        As for `orbittrace_data.load_traces`; the bundled release by default.
    version : str, optional
    crew : Crew, optional
        Who rebuilds; by default this process alone.

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
    folder, manifest = check_release(source, version)
    recipe, origin = recipe_of(folder, manifest)
    with TemporaryDirectory(prefix="orbittrace-verify-") as work:
        built = build_data(recipe, Path(work), crew)
        for config in CONFIGS:
            for split in SPLITS:
                compare_rows(
                    (folder, manifest.files_of(config, split)),
                    (built.folder, built.files(config, split)),
                    f"{folder / CARD_NAME}: {config}/{split}",
                )
    return Verification(len(manifest.files), sum(f.rows for f in manifest.files), origin)


def check_release(source: str | Path | None = None, version: str | None = None) -> tuple[Path, Manifest]:
    """Check everything that a release says of itself: its files, rows, schema, card and companions.

    Parameters
    ----------
    source, version
        As for `verify_release`.

    Returns
    -------
    (Path, Manifest)
        The release's folder and what it holds.

    Raises
    ------
    ReleaseError
        Naming the file that does not hold.
    """
    folder, manifest = open_release(source, version)
    for file in manifest.files:
        table = _table(folder, file)
        if content_digest(table) != file.content_digest:
            raise ReleaseError(
                f"{folder / file.path}: its rows do not have the content digest of the manifest"
            )
        if _columns(table) != [(c["name"], _kind(c["type"])) for c in manifest.schema.get(file.config, [])]:
            raise ReleaseError(f"{folder / file.path} has not the columns that its manifest states")
    check_card(folder)
    return folder, manifest


def recipe_of(folder: Path, manifest: Manifest) -> tuple[Recipe, str]:
    """Return what a release was built from, and where its element sets were found."""
    try:
        model = ShadowModel(**manifest.model)
        power = None if manifest.power is None else PowerModel(**manifest.power)
    except (TypeError, InputError) as error:
        raise VerificationError(
            f"the manifest of {folder} states a model that this version does not know ({error}): upgrade the package"
        ) from None
    selected, elements = [], []
    for file in manifest.files_of("elements"):
        found = element_sets_of(_table(folder, file))
        elements += found
        selected += [Selected(e.catalog_number, file.split) for e in found]
    snapshot, origin = _snapshot(manifest, elements)
    recipe = Recipe(
        snapshot=snapshot,
        selected=tuple(selected),
        start_ms=manifest.start_ms,
        span_ms=manifest.span_ms,
        model=model,
        version=manifest.version,
        kind=manifest.kind,
        power=power,
    )
    return recipe, origin


Shelf = tuple[Path, list[DataFile]]


def compare_rows(stored: Shelf, rebuilt: Shelf, what: str) -> None:
    """Compare the rows of two lists of shards, however each is divided, a few shards at a time.

    Parameters
    ----------
    stored, rebuilt : (Path, list of DataFile)
        Shards of one config and split, with their folder.
    what : str
        What to call them in a sentence.

    Raises
    ------
    VerificationError
        Showing the first difference, if there is one.
    """
    lengths = [sum(file.rows for file in files) for _, files in (stored, rebuilt)]
    if not lengths[0] and lengths[1]:
        raise VerificationError(f"{what} is not in the release, the rebuild gives {lengths[1]} rows")
    for first, mine, theirs in _side_by_side(_tables(stored), _tables(rebuilt)):
        odd = sorted(set(_columns(mine)) ^ set(_columns(theirs)))
        if odd or _columns(mine) != _columns(theirs):
            raise VerificationError(
                f"{what} has another schema than the rebuild: {(odd or ['the order'])[0]} is on one side only"
            )
        if content_digest(mine) == content_digest(theirs):
            continue
        left, right = mine.to_pylist(), theirs.to_pylist()
        different = [i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b]
        index = different[0] if different else min(len(left), len(right))
        raise VerificationError(
            f"{what}: {lengths[0]} rows stored, {lengths[1]} rebuilt, the first difference is row {first + index}: "
            f"stored {_brief(left, right, index)}, rebuilt {_brief(right, left, index)}"
        )


def _side_by_side(
    left: Iterator[pa.Table], right: Iterator[pa.Table]
) -> Iterator[tuple[int, pa.Table, pa.Table]]:
    """Cut two runs of tables into pieces of equal length; what only one run has comes last, beside nothing."""
    first = 0
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        rows = min(a.num_rows, b.num_rows)
        yield first, a.slice(0, rows), b.slice(0, rows)
        first += rows
        a = a.slice(rows) if rows < a.num_rows else next(left, None)
        b = b.slice(rows) if rows < b.num_rows else next(right, None)
    rest = a if b is None else b
    if rest is not None:
        yield (first, rest, rest.slice(0, 0)) if b is None else (first, rest.slice(0, 0), rest)


def _tables(shelf: Shelf) -> Iterator[pa.Table]:
    folder, files = shelf
    return (_table(folder, file) for file in files)


def _table(folder: Path, file: DataFile) -> pa.Table:
    return pq.ParquetFile(folder / file.path).read()


def _columns(table: pa.Table) -> list[tuple[str, str]]:
    return [(f.name, _kind(str(f.type))) for f in table.schema]


def _kind(type_name: str) -> str:
    """Return a column's type without the name of a list's inner field, which differs between writers."""
    return "list<int64>" if type_name.startswith("list<") and "int64" in type_name else type_name


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
