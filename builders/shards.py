"""The unit of work of every build: some satellites' element sets in, their encoded parquet shards out.

A release is made in chunks of a fixed size, so its shards and digests do not depend on how many workers
there are, or where they run. `build_chunk` is the one function that all of them run.
"""

import hashlib
import io
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version as installed_version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .. import __version__
from ..digest import content_digest
from ..manifest import DataFile
from ..power_model import PowerModel
from ..trace import DAY_MS
from .contacts import Shadows, find_shadows
from .element_set import ElementSet
from .recipe import Recipe, chosen_elements
from .satellite_trace import satellite_traces
from .shadow import ShadowModel
from .tables import release_tables

SATELLITE_DAYS_PER_CHUNK = 2_000  # about half a second of work and 60 MB of memory
SATELLITES_PER_CHUNK = 500
ROWS_PER_GROUP = 100_000
SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Chunk:
    """Satellites of one split that are built together; ``index`` counts the chunks of a release."""

    index: int
    split: str
    element_sets: tuple[ElementSet, ...]
    start_ms: int
    span_ms: int
    model: ShadowModel
    power: PowerModel | None = None

    @property
    def name(self) -> str:
        """The name of its folder among the finished chunks."""
        return f"chunk-{self.index:05d}"


@dataclass(frozen=True)
class LeftOut:
    """A satellite without a trace: how many days of it are known, and why no more."""

    catalog_number: int
    name: str
    known_days: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return it as the manifest holds it."""
        return asdict(self)


@dataclass(frozen=True)
class Shards:
    """What a chunk came to: its parquet files, in the order of the configs, and who was left out."""

    index: int
    files: tuple[DataFile, ...]
    contents: tuple[bytes, ...]
    left_out: tuple[LeftOut, ...]


def chunks_of(recipe: Recipe) -> list[Chunk]:
    """Divide a recipe's satellites into chunks, ``dev`` before ``test``, each in the recipe's order."""
    size = satellites_per_chunk(recipe.span_ms)
    elements = chosen_elements(recipe)
    parts = []
    for split in SPLITS:
        inside = [e for e, s in zip(elements, recipe.selected, strict=True) if s.split == split]
        parts += [(split, tuple(inside[i : i + size])) for i in range(0, len(inside), size)]
    return [
        Chunk(index, split, part, recipe.start_ms, recipe.span_ms, recipe.model, recipe.power)
        for index, (split, part) in enumerate(parts)
    ]


def satellites_per_chunk(span_ms: int) -> int:
    """Return the size of a release's chunks: it follows from the span alone."""
    size = int(SATELLITE_DAYS_PER_CHUNK / (span_ms / DAY_MS))
    return min(max(size, 1), SATELLITES_PER_CHUNK)


def full_chunks(chunks: Sequence[Chunk]) -> int:
    """Return how many full chunks' work some chunks hold, rounded down."""
    if not chunks:
        return 0
    return sum(len(chunk.element_sets) for chunk in chunks) // satellites_per_chunk(chunks[0].span_ms)


def build_chunk(chunk: Chunk) -> Shards:
    """Compute a chunk's rows and encode them.

    Parameters
    ----------
    chunk : Chunk

    Returns
    -------
    Shards
        A satellite that cannot be followed to the span's end, or at which the search fails, is left out
        with the reason; its neighbours' rows are what they would be without it.
    """
    element_sets, shadows, left_out = _search(chunk)
    keep = shadows.known_until_ms >= chunk.span_ms
    for i in np.flatnonzero(~keep).tolist():
        known_days = round(float(shadows.known_until_ms[i]) / DAY_MS, 6)
        left_out.append(_left_out(element_sets[i], known_days, shadows.failure[i]))
    element_sets = [e for e, kept in zip(element_sets, keep, strict=True) if kept]
    if not keep.all():
        shadows = _only(shadows, keep)
    files, contents = [], []
    if element_sets:
        traces = satellite_traces(element_sets, shadows, chunk.start_ms, chunk.span_ms, chunk.model)
        for config, table in release_tables(element_sets, traces, shadows, chunk.power).items():
            if table.num_rows:
                file, content = encode(f"{chunk.name}/{config}.parquet", config, chunk.split, table)
                files.append(file)
                contents.append(content)
    return Shards(chunk.index, tuple(files), tuple(contents), tuple(left_out))


def encode(path: str, config: str, split: str, table: pa.Table) -> tuple[DataFile, bytes]:
    """Encode a table as the parquet file of a release.

    Returns
    -------
    (DataFile, bytes)
        Its entry for the manifest, and its content.
    """
    sink = io.BytesIO()
    pq.write_table(
        table.combine_chunks(),
        sink,
        compression="zstd",
        compression_level=3,
        row_group_size=ROWS_PER_GROUP,
        store_schema=False,
        version="2.6",
        data_page_version="1.0",
    )
    content = sink.getvalue()
    file = DataFile(
        path=path,
        config=config,
        split=split,
        rows=table.num_rows,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        content_digest=content_digest(table),
    )
    return file, content


def tool_versions() -> dict[str, str]:
    """Return what the numbers were computed and written with."""
    packages = ("sgp4", "pyerfa", "numpy", "pyarrow")
    return {
        "orbittrace-data": __version__,
        "python": platform.python_version(),
        **{name: installed_version(name) for name in packages},
    }


def _search(chunk: Chunk) -> tuple[Sequence[ElementSet], Shadows, list[LeftOut]]:
    """Find a chunk's shadows; where the search fails, leave out the satellites at which it fails alone."""
    try:
        return chunk.element_sets, find_shadows(chunk.element_sets, *_span(chunk)), []
    except Exception:  # whatever it is, it must not take the neighbours with it
        sound, left_out = [], []
        for one in chunk.element_sets:
            try:
                find_shadows([one], *_span(chunk))
                sound.append(one)
            except Exception as error:
                left_out.append(_left_out(one, 0.0, f"{type(error).__name__}: {error}"))
        return sound, find_shadows(sound, *_span(chunk)), left_out


def _span(chunk: Chunk) -> tuple[int, int, ShadowModel]:
    return chunk.start_ms, chunk.span_ms, chunk.model


def _left_out(one: ElementSet, known_days: float, reason: str) -> LeftOut:
    return LeftOut(one.catalog_number, one.name, known_days, reason)


def _only(shadows: Shadows, keep: np.ndarray) -> Shadows:
    """Return the rows of some of the satellites, counted anew."""
    rows = keep[shadows.satellite]
    per_row = ("occluder", "depth", "start_ms", "stop_ms", "cut_start", "cut_stop", "max_obscuration")
    per_satellite = ("known_until_ms", "beta_min_deg", "beta_max_deg")
    return replace(
        shadows,
        satellite=(np.cumsum(keep) - 1)[shadows.satellite[rows]],
        **{name: getattr(shadows, name)[rows] for name in per_row},
        **{name: getattr(shadows, name)[keep] for name in per_satellite},
        failure=tuple(reason for reason, kept in zip(shadows.failure, keep, strict=True) if kept),
    )
