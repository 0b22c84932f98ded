"""The manifest of a release: what it is, what it was made from, and two digests of every file."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from .errors import FailedError, InputError

FORMAT = "orbittrace-release/1"
MANIFEST_NAME = "manifest.json"
CARD_NAME = "README.md"
CROISSANT_NAME = "croissant.json"
PICTURE_NAME = "timeline.svg"
# What else is generated from a manifest; the card states its digests.
COMPANIONS = (CROISSANT_NAME, PICTURE_NAME)
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
_DATA_PATH = re.compile(r"data/[a-z_]+/(dev|test)-\d{5}-of-\d{5}\.parquet")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CARD_DIGEST = re.compile(r"^orbittrace_manifest_sha256: ([0-9a-f]{64})$", re.MULTILINE)


class ReleaseError(FailedError):
    """A release whose content does not hold."""


class NotAReleaseError(ReleaseError):
    """A folder that is no release at all: another one was meant."""

    exit_code = 2


class VersionError(InputError):
    """A data version that is not three integers, or that a source does not hold."""


@dataclass(frozen=True)
class DataFile:
    """One parquet file: where it is, what it holds, its bytes' sha256 and its rows' content digest."""

    path: str
    config: str
    split: str
    rows: int
    bytes: int
    sha256: str
    content_digest: str


@dataclass(frozen=True)
class Manifest:
    """Everything that a release says of itself; the card is generated from it.

    ``kind`` is ``benchmark`` for the frozen 50 traces and ``derived`` for anything else. ``snapshot``,
    ``model``, ``tools`` and ``notes`` are plain JSON objects, and so is ``power``, the power system of the config
    ``energy``; None where there is no such config.
    """

    version: str
    kind: Literal["benchmark", "derived"]
    start_ms: int
    span_ms: int
    trace_count: int
    snapshot: dict[str, Any]
    model: dict[str, Any]
    power: dict[str, Any] | None
    tools: dict[str, str]
    notes: dict[str, Any]
    schema: dict[str, list[dict[str, Any]]]
    files: tuple[DataFile, ...]

    @property
    def content_digest(self) -> str:
        """sha256 over the files' content digests: equal for equal rows, whatever wrote them."""
        return _digest(self.files)

    @property
    def traces_digest(self) -> str:
        """The same over the config ``traces`` alone: equal where results can be compared."""
        return _digest(self.files_of("traces"))

    @property
    def label(self) -> str:
        """The version for people; a derived release never looks like the benchmark."""
        if self.kind == "benchmark":
            return self.version
        return f"{self.version}, derived from {self.snapshot.get('name')}"

    def files_of(self, config: str, split: str | None = None) -> list[DataFile]:
        """Return the data files of a config, of one split or of all."""
        return [f for f in self.files if f.config == config and split in (None, f.split)]

    def to_json(self) -> bytes:
        """Return the manifest as it is written: keys in their stated order, two spaces, a newline at the end."""
        content = {"format": FORMAT, "content_digest": self.content_digest, **asdict(self)}
        return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _digest(files: Iterable[DataFile]) -> str:
    lines = [f"{f.config} {f.split} {f.rows} {f.content_digest}\n" for f in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_version(version: str) -> str:
    """Return a data version if it is three integers, such as 1.0.0.

    Examples
    --------
    >>> check_version("1.0.0")
    '1.0.0'
    >>> check_version("v1.0")
    Traceback (most recent call last):
        ...
    orbittrace_data.manifest.VersionError: a data version is three integers such as 1.0.0, got 'v1.0'
    """
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise VersionError(f"a data version is three integers such as 1.0.0, got {version!r}")
    return version


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Read a manifest's bytes and check its form.

    Raises
    ------
    ReleaseError
        Saying which part of the manifest does not hold.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ReleaseError(f"{where} is not JSON ({error}): the release is damaged, get it again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ReleaseError(f"{where} is not an OrbitTrace manifest of the format {FORMAT}")
    try:
        files = tuple(DataFile(**entry) for entry in data["files"])
        data.setdefault("power", None)  # data version 1.0.0 had no energy traces
        known = {f.name: data[f.name] for f in fields(Manifest) if f.name != "files"}
        manifest = Manifest(**known, files=files)
        check_version(manifest.version)
    except (KeyError, TypeError, InputError) as error:
        raise ReleaseError(f"{where} is incomplete ({error}): the release is damaged, get it again") from None
    for file in files:
        sound = (
            isinstance(file.path, str)
            and _DATA_PATH.fullmatch(file.path)
            and file.path.startswith(f"data/{file.config}/{file.split}-")
            and all(isinstance(n, int) and n >= 0 for n in (file.rows, file.bytes))
            and all(_SHA256.fullmatch(str(digest)) for digest in (file.sha256, file.content_digest))
        )
        if not sound:
            raise ReleaseError(f"{where} names the data file {file.path!r} in a way that cannot be true")
    if manifest.kind not in ("benchmark", "derived") or manifest.content_digest != data.get("content_digest"):
        raise ReleaseError(f"{where} contradicts itself: its content digest is not that of its files")
    return manifest


def card_digest(card: str) -> str | None:
    """Return the manifest's sha256 as a card's YAML states it, None where it states none."""
    found = _CARD_DIGEST.search(card)
    return found.group(1) if found else None


def read_manifest(folder: str | Path) -> Manifest:
    """Read a release folder's manifest and check it against the card beside it.

    Raises
    ------
    NotAReleaseError
        If the folder has no manifest.
    ReleaseError
        If the manifest is not the one that the card was made from.
    """
    folder = Path(folder)
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise NotAReleaseError(
            f"{folder} is not an OrbitTrace release: it has no {MANIFEST_NAME}. "
            "Make one with `orbittrace export` or `orbittrace build`, or name another source"
        )
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise ReleaseError(f"{path} is larger than {MAX_MANIFEST_BYTES} bytes: that is no manifest of ours")
    content = path.read_bytes()
    card = folder / CARD_NAME
    stated = card_digest(card.read_text(encoding="utf-8", errors="replace")) if card.is_file() else None
    if stated is None:
        raise ReleaseError(
            f"{card} does not state its manifest's digest: the release is damaged, get it again"
        )
    if stated != hashlib.sha256(content).hexdigest():
        raise ReleaseError(
            f"{path} is not the manifest that {CARD_NAME} was made from: one of them was changed, "
            "get the release again"
        )
    return parse_manifest(content, str(path))


def file_sha256(path: str | Path) -> str:
    """Return a file's sha256, hexadecimal."""
    with open(path, "rb") as file:  # noqa: PTH123 - accepts every kind of path
        return hashlib.file_digest(file, "sha256").hexdigest()


def parquet_files(folder: str | Path) -> list[Path]:
    """List the data files that lie in a release folder, named in its manifest or not."""
    return sorted(
        Path(root, name)
        for root, _, names in os.walk(Path(folder, "data"))
        for name in names
        if name.endswith(".parquet")
    )


def check_files(folder: str | Path, manifest: Manifest) -> None:
    """Compare every data file's size and sha256 with the manifest, and find data that it does not name.

    Raises
    ------
    ReleaseError
        Naming the first file that is missing, differs or does not belong there.
    """
    named = {file.path for file in manifest.files}
    for path in parquet_files(folder):
        if path.relative_to(folder).as_posix() not in named:
            raise ReleaseError(
                f"{path} is not in the manifest, and load_dataset would take its rows for the release's: "
                "remove it, or get the release again"
            )
    for file in manifest.files:
        path = Path(folder, file.path)
        if not path.is_file():
            raise ReleaseError(f"{path} is missing: the release is incomplete, get it again")
        if path.stat().st_size != file.bytes or file_sha256(path) != file.sha256:
            raise ReleaseError(
                f"{path} was changed or did not arrive whole: its sha256 differs, get it again"
            )
