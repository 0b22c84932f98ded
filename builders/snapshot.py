"""Frozen snapshots: a folder with a file of element sets as it was got, and what is known about it.

``tle_snapshots/NAME/`` holds ``elements.<format>`` (the original bytes) and ``snapshot.json``. A snapshot is
never edited again: reading one checks the file's sha256 and every record in it.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from orbittrace_data.atomic import new_directory

from ..errors import FailedError, InputError
from .element_set import ElementSet, format_epoch
from .gp import read_element_sets

_FORMAT_VERSION = 1
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
_SUFFIX = {"tle": "3le", "csv": "csv", "json": "json", "xml": "xml", "kvn": "kvn"}


class SnapshotError(InputError):
    """A snapshot that is asked for does not exist, or the one asked to be made cannot be."""


class SnapshotDamaged(FailedError):  # noqa: N818 - a state of the folder, said as a sentence
    """A snapshot's files are not what was frozen."""


@dataclass(frozen=True)
class Snapshot:
    """Element sets as they were at one time.

    Attributes
    ----------
    name : str
        For example ``"2024-09-22"``: the folder's name when it was frozen.
    element_sets : tuple of ElementSet
        In the file's order, one an object.
    source : str
        Where the elements come from.
    retrieved : str
        When they were got (an ISO date or instant, as it was given).
    oldest_epoch, newest_epoch : str
        The range of the epochs, ISO 8601 UTC.
    elements_file : str
        The name of the file of elements.
    elements_sha256 : str
        Of that file's bytes.
    licence_notice, citation : str
        To be carried along with anything made from the elements.
    digest : str
        sha256 of ``snapshot.json``, which holds `elements_sha256`: one value that stands for all of it.
    """

    name: str
    element_sets: tuple[ElementSet, ...]
    source: str
    retrieved: str
    oldest_epoch: str
    newest_epoch: str
    elements_file: str
    elements_sha256: str
    licence_notice: str
    citation: str
    digest: str


def bundled_snapshots() -> list[str]:
    """List the names of the snapshots that are installed with the package."""
    return sorted(path.parent.name for path in _bundled_folder().glob("*/snapshot.json"))


def read_snapshot(path_or_name: str | os.PathLike[str]) -> Snapshot:
    """Read a snapshot and check all of it.

    Parameters
    ----------
    path_or_name : path or str
        The name of a bundled one (``"2024-09-22"``), or a folder.

    Returns
    -------
    Snapshot

    Raises
    ------
    SnapshotError
        If there is none.
    SnapshotDamaged
        If its files are not what was frozen.
    """
    folder = _find(path_or_name)
    try:
        described = (folder / "snapshot.json").read_bytes()
    except OSError:
        raise SnapshotError(
            f"{folder} is no snapshot (it has no readable snapshot.json): give a snapshot's folder or one of "
            f"{', '.join(bundled_snapshots()) or 'no bundled names'}"
        ) from None
    facts = _parse(folder, described)
    file_name = facts["elements_file"]
    if Path(file_name).name != file_name or not file_name.startswith("elements."):
        raise SnapshotDamaged(
            f"{folder}/snapshot.json names the file {file_name!r}, not one of its own folder"
        )
    try:
        content = (folder / file_name).read_bytes()
    except OSError as error:
        raise SnapshotDamaged(f"{folder} lacks its {file_name} ({error.strerror}): get it again") from None
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != facts["elements_sha256"]:
        raise SnapshotDamaged(
            f"{folder}/{file_name} has sha256 {sha256} where {facts['elements_sha256']} was frozen: "
            "the file was changed; get the snapshot again"
        )
    digest = hashlib.sha256(described).hexdigest()
    snapshot = _snapshot(facts["name"], content, facts, digest, f"{folder}/{file_name}")
    true = {key: getattr(snapshot, key) for key in ("oldest_epoch", "newest_epoch", "elements_file")}
    for key, value in {"records": len(snapshot.element_sets), **true}.items():
        if facts[key] != value:
            raise SnapshotDamaged(f"{folder}/snapshot.json says {key} {facts[key]}, the elements say {value}")
    return snapshot


def write_snapshot(
    target: str | os.PathLike[str],
    content: bytes,
    *,
    source: str,
    retrieved: str,
    licence_notice: str,
    citation: str,
) -> Snapshot:
    """Freeze a file of element sets, whole or not at all; nothing that exists is overwritten.

    Parameters
    ----------
    target : path
        The folder to make; its name is the snapshot's.
    content : bytes
        The file as it was got, in any format that `read_element_sets` knows. Its bytes are kept.
    source, retrieved, licence_notice, citation : str
        What is known about it.

    Returns
    -------
    Snapshot

    Raises
    ------
    SnapshotError
        If the name or a fact cannot be used.
    GpError
        If a record in it is bad.
    InputError
        If the folder exists.
    """
    target = Path(target).absolute()
    if not _NAME.fullmatch(target.name):
        raise SnapshotError(
            f"a snapshot cannot be called {target.name!r}: use letters, digits, '.', '_' and '-', at most 64"
        )
    facts = {
        "source": source,
        "retrieved": retrieved,
        "licence_notice": licence_notice,
        "citation": citation,
    }
    for key, value in facts.items():
        if not value.strip():
            raise SnapshotError(f"a snapshot needs its {key.replace('_', ' ')}: none was given")
    facts["elements_sha256"] = hashlib.sha256(content).hexdigest()
    snapshot = _snapshot(target.name, content, facts, "")
    described = {
        "format_version": _FORMAT_VERSION,
        "name": snapshot.name,
        "source": source,
        "retrieved": retrieved,
        "records": len(snapshot.element_sets),
        "oldest_epoch": snapshot.oldest_epoch,
        "newest_epoch": snapshot.newest_epoch,
        "elements_file": snapshot.elements_file,
        "elements_sha256": snapshot.elements_sha256,
        "licence_notice": licence_notice,
        "citation": citation,
    }
    with new_directory(target) as building:
        (building / snapshot.elements_file).write_bytes(content)
        text = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
        (building / "snapshot.json").write_bytes(text.encode())
    return read_snapshot(target)


def _snapshot(
    name: str, content: bytes, facts: Mapping[str, Any], digest: str, called: str | None = None
) -> Snapshot:
    """Read the records strictly and put the facts beside them."""
    reading = read_element_sets(content, strict=True, called=called)
    epochs = [e.epoch_us for e in reading.element_sets]
    return Snapshot(
        name=name,
        element_sets=reading.element_sets,
        source=facts["source"],
        retrieved=facts["retrieved"],
        oldest_epoch=format_epoch(min(epochs)),
        newest_epoch=format_epoch(max(epochs)),
        elements_file=f"elements.{_SUFFIX[reading.format]}",
        elements_sha256=facts["elements_sha256"],
        licence_notice=facts["licence_notice"],
        citation=facts["citation"],
        digest=digest,
    )


def _parse(folder: Path, described: bytes) -> dict[str, Any]:
    """Read snapshot.json; its keys are all there and hold text, or the number of records."""
    try:
        facts = json.loads(described)
    except ValueError as error:
        raise SnapshotDamaged(f"{folder}/snapshot.json is not JSON: {error}") from None
    if not isinstance(facts, dict) or facts.get("format_version") != _FORMAT_VERSION:
        raise SnapshotDamaged(
            f"{folder}/snapshot.json is not of format version {_FORMAT_VERSION}: this version of the package "
            "cannot read it"
        )
    needed = (
        "name",
        "source",
        "retrieved",
        "oldest_epoch",
        "newest_epoch",
        "elements_file",
        "elements_sha256",
        "licence_notice",
        "citation",
    )
    for key in needed:
        if not isinstance(facts.get(key), str):
            raise SnapshotDamaged(f"{folder}/snapshot.json has no text under {key!r}: get the snapshot again")
    if type(facts.get("records")) is not int:
        raise SnapshotDamaged(f"{folder}/snapshot.json has no number under 'records': get the snapshot again")
    return {key: facts[key] for key in (*needed, "records")}


def _bundled_folder() -> Path:
    return Path(str(files("orbittrace_data.tle_snapshots") / "__init__.py")).parent


def _find(path_or_name: str | os.PathLike[str]) -> Path:
    """Take a bundled name first, then a path."""
    if isinstance(path_or_name, str) and path_or_name in bundled_snapshots():
        return _bundled_folder() / path_or_name
    if not os.path.isdir(path_or_name):  # noqa: PTH112 - False, not an error, for a name that no system can hold
        raise SnapshotError(
            f"there is no snapshot {path_or_name}: give a folder or one of "
            f"{', '.join(bundled_snapshots()) or '(none is installed)'}"
        )
    return Path(path_or_name).absolute()
