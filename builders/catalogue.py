"""Build the data of a release, from one satellite to a whole catalogue: chunks over workers, resumable."""

import hashlib
import logging
import os
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..errors import FailedError, InputError
from ..manifest import DataFile
from ..progress import progress
from ..schema import CONFIGS
from ..trace import DAY_MS
from .recipe import Recipe
from .satellite_trace import PropagationError
from .shards import (
    SPLITS,
    Chunk,
    LeftOut,
    Shards,
    chunks_of,
    full_chunks,
    satellites_per_chunk,
    tool_versions,
)
from .work import Finished, begin, keep, resume
from .workers import Unbuilt, run_here, run_in_processes

Engine = Literal["local", "ray"]
ENGINES = ("local", "ray")
_REASONS_SHOWN = 10

_log = logging.getLogger("orbittrace")


class ChunkError(FailedError):
    """Chunks that could not be built; the others are kept."""


@dataclass(frozen=True)
class Crew:
    """Who does the work: how many workers, and where.

    Parameters
    ----------
    workers : int
        Processes; 1 is this process itself.
    engine : {"local", "ray"}
        ``ray`` needs the extra ``ray``.
    address : str, optional
        Of a Ray cluster; by default one is started here.
    """

    workers: int = 1
    engine: Engine = "local"
    address: str | None = None

    def __post_init__(self):
        if self.workers < 1:
            raise InputError(f"workers must be at least 1, got {self.workers}")
        if self.engine not in ENGINES:
            raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")
        if self.address is not None and self.engine != "ray":
            raise InputError("an address is that of a Ray cluster: give --engine ray with it")


@dataclass(frozen=True)
class Built:
    """The data of a release in its work folder, in the order of the satellites."""

    folder: Path
    chunks: tuple[Finished, ...]

    @property
    def left_out(self) -> list[LeftOut]:
        """The satellites without a trace."""
        return [one for chunk in self.chunks for one in chunk.left_out]

    def files(self, config: str, split: str) -> list[DataFile]:
        """Return the shards of a config and split, with paths within the work folder."""
        every = (file for chunk in self.chunks for file in chunk.files)
        return [file for file in every if (file.config, file.split) == (config, split)]

    def place(self, release: Path) -> list[DataFile]:
        """Put the shards into a release folder under their final names, and return their entries."""
        placed = []
        for config in CONFIGS:
            for split in SPLITS:
                shards = self.files(config, split)
                for number, file in enumerate(shards):
                    path = f"data/{config}/{split}-{number:05d}-of-{len(shards):05d}.parquet"
                    (release / path).parent.mkdir(parents=True, exist_ok=True)
                    _link(self.folder / file.path, release / path)
                    placed.append(replace(file, path=path))
        return placed


def build_data(recipe: Recipe, folder: Path, crew: Crew | None = None, *, continued: bool = False) -> Built:
    """Compute a recipe's rows into a work folder.

    Memory stays bounded: a chunk's rows live from its end to its being written.

    Parameters
    ----------
    recipe : Recipe
    folder : Path
        The work folder; the caller holds its lock.
    crew : Crew, optional
        By default this process alone.
    continued : bool
        Continue an interrupted build in that folder; otherwise what is there is removed.

    Returns
    -------
    Built

    Raises
    ------
    ChunkError
        If chunks could not be built, after all the others were.
    PropagationError
        If no satellite is left, or one of the benchmark's.
    ResumeError
        If there is nothing that could be continued.
    """
    crew = crew or Crew()
    chunks = chunks_of(recipe)
    finished: dict[int, Finished] = {}
    if continued:
        finished = {one.index: one for one in resume(folder, _job(recipe), chunks)}
        _log.warning("resuming: %d of %d chunks are there", len(finished), len(chunks))
    else:
        dropped = begin(folder, _job(recipe))
        if dropped:
            _log.warning("removed %d chunks of an interrupted build (--resume would have kept them)", dropped)
    waiting = [chunk for chunk in chunks if chunk.index not in finished]
    unbuilt = []
    satellites = sum(len(chunk.element_sets) for chunk in waiting)
    with progress("building", satellites, "satellites") as advance, closing(_run(waiting, crew)) as results:
        for result in results:
            if isinstance(result, Unbuilt):
                unbuilt.append(result)
                continue
            chunk = chunks[result.index]
            finished[chunk.index] = keep(folder, chunk, result)
            advance(len(chunk.element_sets))
    if unbuilt:
        raise ChunkError(
            f"{len(unbuilt)} of {len(chunks)} chunks could not be built: "
            f"{'; '.join(map(str, unbuilt[:3]))}{'; ...' if len(unbuilt) > 3 else ''}. The others are kept: "
            "--resume continues with these"
        )
    built = Built(folder, tuple(finished[chunk.index] for chunk in chunks))
    _require_traces(recipe, built)
    return built


def _run(chunks: Sequence[Chunk], crew: Crew) -> Generator[Shards | Unbuilt]:
    if crew.engine == "ray":
        from .ray_engine import run_on_ray

        return run_on_ray(chunks, crew.workers, crew.address)
    # A process costs about as much to start as a chunk to build.
    workers = min(crew.workers, full_chunks(chunks))
    return run_here(chunks) if workers < 2 else run_in_processes(chunks, workers)


def _require_traces(recipe: Recipe, built: Built) -> None:
    left_out = built.left_out
    if left_out and (recipe.kind == "benchmark" or len(left_out) == len(recipe.selected)):
        one = left_out[0]
        raise PropagationError(
            f"satellite {one.catalog_number} ({one.name}) is known for {one.known_days:.3f} of "
            f"{recipe.span_ms / DAY_MS:.6g} days only: {one.reason}. "
            "Use a newer element set, a shorter span, or leave it out"
        )


def summary(left_out: Iterable[dict[str, Any]]) -> list[str]:
    """Say who was left out, a line for each reason, the most frequent first.

    Examples
    --------
    >>> summary([{"catalog_number": 5, "name": "", "known_days": 0.5, "reason": "decayed"}])
    ['1 satellite without a trace (decayed): 5']
    """
    by_reason: dict[str, list[int]] = {}
    for one in left_out:
        by_reason.setdefault(one["reason"], []).append(one["catalog_number"])
    lines = [
        f"{len(numbers)} satellite{'s' * (len(numbers) > 1)} without a trace ({reason}): "
        + ", ".join(map(str, numbers[:10]))
        + (", ..." if len(numbers) > 10 else "")
        for reason, numbers in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]
    rest = len(lines) - _REASONS_SHOWN
    return [*lines[:_REASONS_SHOWN], *([f"{rest} more reasons: see left_out in the manifest"] * (rest > 0))]


def _job(recipe: Recipe) -> dict[str, Any]:
    """Describe everything that decides a build's shards: only an equal job may be continued."""
    who = "".join(f"{s.catalog_number} {s.split}\n" for s in recipe.selected)
    return {
        "snapshot": recipe.snapshot.digest,
        "satellites": hashlib.sha256(who.encode()).hexdigest(),
        "start_ms": recipe.start_ms,
        "span_ms": recipe.span_ms,
        "model": asdict(recipe.model),
        "power": None if recipe.power is None else asdict(recipe.power),
        "satellites_per_chunk": satellites_per_chunk(recipe.span_ms),
        "tools": tool_versions(),
    }


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, so that the work folder stays whole until the release is in place."""
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
