"""Build a release: a Hugging Face dataset repository with data, manifest and card, swapped in whole."""

import hashlib
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..atomic import new_directory
from ..errors import InputError
from ..loader import require_frozen_content
from ..manifest import (
    CARD_NAME,
    CROISSANT_NAME,
    MANIFEST_NAME,
    PICTURE_NAME,
    DataFile,
    Manifest,
    check_version,
)
from ..schema import CONFIGS, TRACES
from ..trace import Trace
from .card import render_card
from .catalogue import Built, ChunkError, Crew, build_data
from .croissant import render_croissant
from .element_set import ElementSet
from .error_budget import error_budget
from .picture import contrasting, render_picture
from .recipe import Recipe, chosen_elements
from .satellite_trace import regime_of
from .shards import tool_versions
from .snapshot import Snapshot
from .work import ResumeError, lock, work_folder_of

_log = logging.getLogger("orbittrace")


def build_release(
    recipe: Recipe,
    out: str | Path,
    notes: dict[str, Any] | None = None,
    crew: Crew | None = None,
    *,
    resume: bool = False,
) -> Manifest:
    """Build a release folder and swap it in.

    Parameters
    ----------
    recipe : Recipe
    out : str or Path
        The folder to write. Only an OrbitTrace release or nothing may be there.
    notes : dict, optional
        Further facts for manifest and card, such as the error budget.
    crew : Crew, optional
        Who does the work; by default this process alone. The rows do not depend on it.
    resume : bool
        Continue the build of ``out`` that was interrupted.

    Returns
    -------
    Manifest
        Satellites without a trace stand in its notes under ``left_out``.

    Raises
    ------
    InputError
        If ``out`` holds anything else, which is left as it is.
    ChunkError
        If some satellites' chunks could not be built; the others are kept for `resume`.
    """
    require_replaceable(out)
    work = work_folder_of(out)
    with lock(work):
        try:
            built = build_data(recipe, work, crew, continued=resume)
            manifest = _release(recipe, built, out, notes or {})
        except KeyboardInterrupt:
            _log.warning("the finished chunks are kept in %s: --resume continues with them", work)
            raise
        except (ChunkError, ResumeError, OSError):
            raise  # what is finished stays, for another try
        except Exception:
            shutil.rmtree(work)
            raise
        shutil.rmtree(work)
        return manifest


def _release(recipe: Recipe, built: Built, out: str | Path, notes: dict[str, Any]) -> Manifest:
    """Make a release of the data in a work folder."""
    with new_directory(out, replace=True) as folder:
        files = built.place(folder)
        facts = [name for name in TRACES.names if name not in ("gap_start_ms", "gap_stop_ms")]
        paths = [folder / file.path for file in files if file.config == "traces"]
        traces = pa.concat_tables([pq.ParquetFile(path).read(columns=facts) for path in paths])
        if built.left_out:
            notes = {**notes, "left_out": [one.to_json() for one in built.left_out]}
        if recipe.kind == "benchmark":
            notes = {"error_budget": budget_of(recipe), **notes}
        manifest = write_manifest(folder, recipe, files, traces, notes)
        require_frozen_content(manifest, "this build")
        return manifest


def write_manifest(
    folder: Path, recipe: Recipe, files: Sequence[DataFile], traces: pa.Table, notes: dict[str, Any]
) -> Manifest:
    """Write manifest, card and the like of a release whose data files are written; of the traces no gaps are needed."""
    configs = [config for config in CONFIGS if any(f.config == config for f in files)]
    manifest = Manifest(
        version=check_version(recipe.version),
        kind=recipe.kind,
        start_ms=recipe.start_ms,
        span_ms=recipe.span_ms,
        trace_count=traces.num_rows,
        snapshot=snapshot_facts(recipe.snapshot),
        model=asdict(recipe.model),
        power=None if recipe.power is None else asdict(recipe.power),
        tools=tool_versions(),
        notes=notes,
        schema={config: schema_of(CONFIGS[config]) for config in configs},
        files=tuple(files),
    )
    (folder / MANIFEST_NAME).write_bytes(manifest.to_json())
    write_descriptions(folder, manifest, traces)
    return manifest


def write_descriptions(folder: Path, manifest: Manifest, traces: pa.Table) -> None:
    """Write what is generated from a manifest: Croissant metadata, picture and, with their digests, the card."""
    manifest_sha256 = hashlib.sha256(manifest.to_json()).hexdigest()
    texts = {
        CROISSANT_NAME: render_croissant(manifest, manifest_sha256),
        PICTURE_NAME: render_picture(_with_gaps(folder, manifest, contrasting(traces))),
    }
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    texts[CARD_NAME] = render_card(manifest, manifest_sha256, traces, digests)
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())


def _with_gaps(folder: Path, manifest: Manifest, trace_ids: list[str]) -> list[Trace]:
    """Read some traces with their gaps, in the order of the release."""
    wanted = pa.array(trace_ids, pa.string())
    tables = []
    for file in manifest.files_of("traces"):
        table = pq.ParquetFile(folder / file.path).read()
        tables.append(
            table.filter(pc.call_function("is_in", [table["trace_id"]], pc.SetLookupOptions(wanted)))
        )
    return [Trace.from_row(row) for table in tables for row in table.to_pylist()]


def budget_of(recipe: Recipe) -> list[dict[str, Any]]:
    """Measure the error budget of a recipe's satellites, to three digits: the same on every processor."""
    by_regime: dict[str, list[ElementSet]] = {}
    for one in chosen_elements(recipe):
        by_regime.setdefault(regime_of(one), []).append(one)
    rows = error_budget(by_regime, recipe.start_ms, recipe.span_ms)
    return [
        {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]


def snapshot_facts(snapshot: Snapshot) -> dict[str, str]:
    """Return what a manifest says of its snapshot: everything but the element sets."""
    return {f.name: getattr(snapshot, f.name) for f in fields(Snapshot) if f.name != "element_sets"}


def snapshot_of(facts: dict[str, str], element_sets: Sequence[ElementSet]) -> Snapshot:
    """Return the snapshot that a manifest describes, with the element sets of the release itself."""
    return Snapshot(**{**facts, "element_sets": tuple(element_sets)})


def schema_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Describe a schema in JSON."""
    return [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in schema]


def require_replaceable(out: str | Path) -> None:
    """Raise unless ``out`` is absent, empty, or an OrbitTrace release."""
    path = Path(out)
    if path.is_symlink():
        raise InputError(f"{path} is a link: give the folder itself with --out")
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is not a folder: choose another place with --out")
    if not path.is_dir() or not any(path.iterdir()):
        return
    manifest = path / MANIFEST_NAME
    if not manifest.is_file() or b'"format": "orbittrace-release/' not in manifest.read_bytes()[:200]:
        raise InputError(
            f"{path} holds something that is not an OrbitTrace release, and is left as it is: "
            "choose another place with --out, or remove it first"
        )
