"""The work folder of a build: finished chunks beside the release to be, so that a kill costs little.

A chunk's folder appears by one rename when its files are written. Nothing is synced to the disk here: a
chunk counts as finished only if its files have the sha256 that were written down, whatever happened since.
"""

import fcntl
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..atomic import write_bytes
from ..errors import FailedError, InputError
from ..manifest import DataFile, file_sha256
from .shards import Chunk, LeftOut, Shards

_JOB = "job.json"
_RECORD = "chunk.json"


class ResumeError(InputError):
    """There is nothing to resume, or something that this build would not continue."""


@dataclass(frozen=True)
class Finished:
    """A chunk on disk: its files, with paths within the work folder, and who was left out."""

    index: int
    files: tuple[DataFile, ...]
    left_out: tuple[LeftOut, ...]


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a work folder; the system lets go of it when the process ends, however it ends.

    Raises
    ------
    InputError
        If something stands there that no build made: it is left as it is.
    """
    _require_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FailedError(
                f"another build is at work in {folder}: wait for it, or stop it first"
            ) from None
        try:
            yield
        finally:
            if folder.is_dir() and [path.name for path in folder.iterdir()] == [".lock"]:  # nothing was begun
                shutil.rmtree(folder)


def work_folder_of(out: str | Path) -> Path:
    """Return where the build of a release keeps its finished chunks: a hidden sibling."""
    out = Path(out).absolute()
    return out.with_name(f".{out.name}.orbittrace-chunks")


def _require_ours(folder: Path) -> None:
    names = re.compile(r"\.lock|\.?chunk-[0-9]+|job\.json|\.job\.json\.[0-9]+\.tmp")
    if folder.is_symlink() or (
        folder.exists() and not (folder.is_dir() and all(names.fullmatch(p.name) for p in folder.iterdir()))
    ):
        raise InputError(
            f"{folder} is where finished chunks are kept, but no build made it: move it away first"
        )


def begin(folder: Path, job: dict[str, Any]) -> int:
    """Start a work folder anew, and return how many chunks of an interrupted build went with it."""
    dropped = sum(1 for _ in folder.glob(f"chunk-*/{_RECORD}"))
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    write_bytes(folder / _JOB, _json(job))
    return dropped


def resume(folder: Path, job: dict[str, Any], chunks: list[Chunk]) -> list[Finished]:
    """Return the finished chunks of an interrupted build, each file checked against its sha256.

    Raises
    ------
    ResumeError
        If there is no interrupted build, or it was to make something else.
    """
    try:
        before = json.loads((folder / _JOB).read_bytes())
    except (OSError, ValueError):
        raise ResumeError(
            f"there is no interrupted build in {folder}: build without --resume, or give its --out"
        ) from None
    wanted = json.loads(_json(job))
    if before != wanted:
        odd = [key for key in wanted if not isinstance(before, dict) or before.get(key) != wanted[key]]
        raise ResumeError(
            f"the interrupted build in {folder} had another {', '.join(odd) or 'form'}: give the options that it "
            "had, or build without --resume"
        )
    for half in folder.glob(".chunk-*"):
        shutil.rmtree(half)
    finished = [_read(folder, chunk) for chunk in chunks]
    return [one for one in finished if one is not None]


def keep(folder: Path, chunk: Chunk, shards: Shards) -> Finished:
    """Write a finished chunk, whole or not at all."""
    finished = Finished(chunk.index, shards.files, shards.left_out)
    target, half = folder / chunk.name, folder / f".{chunk.name}"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    for file, content in zip(shards.files, shards.contents, strict=True):
        (half / Path(file.path).name).write_bytes(content)
    (half / _RECORD).write_bytes(_json(asdict(finished)))
    shutil.rmtree(target, ignore_errors=True)
    half.rename(target)
    return finished


def _read(folder: Path, chunk: Chunk) -> Finished | None:
    """Read a finished chunk; None if it is not there or anything about it does not hold."""
    try:
        record = json.loads((folder / chunk.name / _RECORD).read_bytes())
        files = tuple(DataFile(**file) for file in record["files"])
        left_out = tuple(LeftOut(**one) for one in record["left_out"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for file in files:
        path = folder / file.path
        sound = file.path == f"{chunk.name}/{file.config}.parquet" and path.is_file()
        if not sound or file_sha256(path) != file.sha256:
            return None
    return Finished(chunk.index, files, left_out)


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()
