"""The record of downloads in the user's cache folder: what was asked when, and what came."""

import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from orbittrace_data.atomic import write_bytes
from orbittrace_data.errors import FailedError


class CacheError(FailedError):
    """The folder of downloads cannot be used."""


@dataclass(frozen=True)
class Download:
    """What is remembered of a query: when it was asked, and the last data that came.

    Where the newest answer was no data, ``words`` holds what the server said, or ``refused`` why its answer was not
    taken.
    """

    source: str
    asked_s: int
    status: int = 0
    words: str = ""
    retrieved_s: int = 0
    sha256: str = ""
    refused: str = ""


def cache_folder() -> Path:
    """Give the folder of downloads: $ORBITTRACE_CACHE, else orbittrace below the user's cache folder."""
    if chosen := os.environ.get("ORBITTRACE_CACHE"):
        return Path(chosen)
    # The XDG base directory specification: a path that is not absolute is to be ignored.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "orbittrace"


def find_download(content: bytes) -> Download | None:
    """Find where a file's bytes were fetched, if they were.

    Parameters
    ----------
    content : bytes

    Returns
    -------
    Download or None
    """
    sha256 = hashlib.sha256(content).hexdigest()
    for record in sorted((cache_folder() / "downloads").glob("*.json")):
        last, _ = recall(record)
        if last is not None and last.sha256 == sha256:
            return last
    return None


@contextmanager
def alone() -> Iterator[Path]:
    """Hold the one lock of all processes of this user while downloads are looked at or made."""
    folder = cache_folder() / "downloads"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise CacheError(
            f"the folder of downloads {folder} cannot be written ({error.strerror}): set ORBITTRACE_CACHE to another"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another fetch to end: one request at a time", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def recall(record: Path) -> tuple[Download | None, bytes | None]:
    """Read what is remembered of a query; a record that does not hold counts as none."""
    try:
        download = Download(**json.loads(record.read_bytes()))
        utc(download.asked_s + download.retrieved_s)
    except (OSError, ValueError, TypeError, OverflowError):
        return None, None
    try:
        content = record.with_suffix(".data").read_bytes()
    except OSError:
        return download, None
    return download, content if hashlib.sha256(content).hexdigest() == download.sha256 else None


def remember(record: Path, download: Download, content: bytes | None) -> None:
    """Write a query's record; the data first, so that a record never promises what is not there."""
    if content is not None:
        write_bytes(record.with_suffix(".data"), content)
    write_bytes(record, json.dumps(asdict(download), indent=1).encode())


def utc(seconds: int) -> str:
    """Write a Unix time as an ISO 8601 instant."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> float:
    """Tell the Unix time."""
    return time.time()
