"""Build a release: a Hugging Face dataset repository with data, manifest and card, swapped in whole."""

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import __version__
from ..atomic import new_directory
from ..digest import content_digest
from ..errors import InputError
from ..loader import require_frozen_content
from ..manifest import (
    CARD_NAME,
    MANIFEST_NAME,
    DataFile,
    Manifest,
    check_version,
    file_sha256,
)
from ..schema import CONFIGS
from .card import render_card
from .contacts import find_shadows
from .element_set import ElementSet
from .recipe import Recipe, chosen_elements
from .satellite_trace import require_known, satellite_traces
from .snapshot import Snapshot
from .tables import release_tables

ROWS_PER_GROUP = 100_000


def tables_by_split(recipe: Recipe) -> dict[str, dict[str, pa.Table]]:
    """Compute a recipe's rows: ``{split: {config: table}}``, empty splits left out."""
    elements = chosen_elements(recipe)
    shadows = find_shadows(elements, recipe.start_ms, recipe.span_ms, recipe.model)
    require_known(elements, shadows, recipe.span_ms)
    traces = satellite_traces(elements, shadows, recipe.start_ms, recipe.span_ms, recipe.model)
    whole = release_tables(elements, traces, shadows)
    result = {}
    for split in ("dev", "test"):
        inside = {t.trace_id for t, s in zip(traces, recipe.selected, strict=True) if s.split == split}
        if inside:
            result[split] = {name: _rows_of(table, inside) for name, table in whole.items()}
    return result


def _rows_of(table: pa.Table, trace_ids: set[str]) -> pa.Table:
    return table.filter(
        pa.array([trace_id in trace_ids for trace_id in table["trace_id"].to_pylist()], pa.bool_())
    )


def build_release(recipe: Recipe, out: str | Path, notes: dict[str, Any] | None = None) -> Manifest:
    """Build a release folder and swap it in.

    Parameters
    ----------
    recipe : Recipe
    out : str or Path
        The folder to write. Only an OrbitTrace release or nothing may be there.
    notes : dict, optional
        Further facts for manifest and card, such as the error budget.

    Returns
    -------
    Manifest

    Raises
    ------
    InputError
        If ``out`` holds anything else, which is left as it is.
    """
    require_replaceable(out)
    by_split = tables_by_split(recipe)
    with new_directory(out, replace=True) as folder:
        files = [
            write_table(folder, config, split, tables[config])
            for config in CONFIGS
            for split, tables in by_split.items()
            if tables[config].num_rows
        ]
        traces = pa.concat_tables([tables["traces"] for tables in by_split.values()])
        manifest = write_manifest(folder, recipe, files, traces, notes or {})
        require_frozen_content(manifest, "this build")
        return manifest


def write_table(
    folder: Path, config: str, split: str, table: pa.Table, shard: int = 0, of: int = 1
) -> DataFile:
    """Write one parquet file of a release and return its entry for the manifest."""
    path = f"data/{config}/{split}-{shard:05d}-of-{of:05d}.parquet"
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table.combine_chunks(),
        target,
        compression="zstd",
        compression_level=3,
        row_group_size=ROWS_PER_GROUP,
        store_schema=False,
        version="2.6",
        data_page_version="1.0",
    )
    return DataFile(
        path=path,
        config=config,
        split=split,
        rows=table.num_rows,
        bytes=target.stat().st_size,
        sha256=file_sha256(target),
        content_digest=content_digest(table),
    )


def write_manifest(
    folder: Path, recipe: Recipe, files: Sequence[DataFile], traces: pa.Table, notes: dict[str, Any]
) -> Manifest:
    """Write manifest and card of a release whose data files are written."""
    configs = [config for config in CONFIGS if any(f.config == config for f in files)]
    manifest = Manifest(
        version=check_version(recipe.version),
        kind=recipe.kind,
        start_ms=recipe.start_ms,
        span_ms=recipe.span_ms,
        trace_count=traces.num_rows,
        snapshot=snapshot_facts(recipe.snapshot),
        model=asdict(recipe.model),
        tools=tool_versions(),
        notes=notes,
        schema={config: schema_of(CONFIGS[config]) for config in configs},
        files=tuple(files),
    )
    content = manifest.to_json()
    (folder / MANIFEST_NAME).write_bytes(content)
    card = render_card(manifest, hashlib.sha256(content).hexdigest(), traces)
    (folder / CARD_NAME).write_text(card, encoding="utf-8")
    return manifest


def snapshot_facts(snapshot: Snapshot) -> dict[str, str]:
    """Return what a manifest says of its snapshot: everything but the element sets."""
    return {f.name: getattr(snapshot, f.name) for f in fields(Snapshot) if f.name != "element_sets"}


def snapshot_of(facts: dict[str, str], element_sets: Sequence[ElementSet]) -> Snapshot:
    """Return the snapshot that a manifest describes, with the element sets of the release itself."""
    return Snapshot(**{**facts, "element_sets": tuple(element_sets)})


def schema_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Describe a schema in JSON."""
    return [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in schema]


def tool_versions() -> dict[str, str]:
    """Return what the numbers were computed and written with."""
    packages = ("sgp4", "pyerfa", "numpy", "pyarrow")
    return {
        "orbittrace-data": __version__,
        "python": platform.python_version(),
        **{name: installed_version(name) for name in packages},
    }


def require_replaceable(out: str | Path) -> None:
    """Raise unless ``out`` is absent, empty, or an OrbitTrace release."""
    path = Path(out)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise InputError(f"{path} is not a folder: choose another place with --out")
    if not path.is_dir() or not any(path.iterdir()):
        return
    manifest = path / MANIFEST_NAME
    if not manifest.is_file() or b'"format": "orbittrace-release/' not in manifest.read_bytes()[:200]:
        raise InputError(
            f"{path} holds something that is not an OrbitTrace release, and is left as it is: "
            "choose another place with --out, or remove it first"
        )
