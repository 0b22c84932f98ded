"""Load traces: the bundled release, a release folder, or one on the Hugging Face Hub."""

import difflib
import json
import logging
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .errors import InputError
from .manifest import (
    CARD_NAME,
    MANIFEST_NAME,
    Manifest,
    ReleaseError,
    VersionError,
    check_files,
    check_version,
    file_sha256,
    parquet_files,
    read_manifest,
)
from .trace import REGIMES, Trace

if TYPE_CHECKING:
    import pyarrow as pa

BUNDLED = Path(__file__).parent / "release"
FROZEN = Path(__file__).with_name("frozen.json")
SPLITS = ("dev", "test")

_log = logging.getLogger("orbittrace")


class UnknownTraceError(InputError):
    """A trace id that a release does not hold."""

    def __init__(self, trace_id: str, known: list[str]):
        self.trace_id = trace_id
        near = difflib.get_close_matches(trace_id, known, n=3, cutoff=0.5) or known[:3]
        super().__init__(
            f"there is no trace {trace_id!r}; did you mean {', '.join(near)}? "
            f"`orbittrace list` shows all {len(known)}"
        )


def load_traces(
    *,
    config: Literal["traces", "energy"] = "traces",
    split: Literal["dev", "test"] | None = None,
    regime: Literal["leo", "meo", "geo", "heo", "other"] | None = None,
    source: str | Path | None = None,
    version: str | None = None,
) -> list[Trace]:
    """Load the traces of a release, checked against its manifest.

    Parameters
    ----------
    config : {"traces", "energy"}
        Where there is sunlight, or when a payload's battery lets it run (ids such as
        ``leo-25544@cubesat-6u``; the spacecraft stands on the dataset card). ``energy`` came with data
        version 1.1.0.
    split : {"dev", "test"}, optional
        ``dev`` is for tuning, ``test`` for reporting; by default both.
    regime : {"leo", "meo", "geo", "heo", "other"}, optional
    source : str or Path, optional
        A release folder, or a dataset on the Hub such as ``namespace/orbittrace``; by default the
        release inside this package, which needs no network.
    version : str, optional
        The data version that is wanted, such as ``1.0.0``: that one or an error.

    Returns
    -------
    list of Trace
        First ``dev``, then ``test``, each in the release's order; a derived release names itself in
        ``Trace.release``.

    Raises
    ------
    ReleaseError
        If the folder is no release, or a byte of its manifest or data is not what it should be.
    VersionError
        If the source does not hold the version.
    InputError
        For an unknown split, regime, source or config.

    Examples
    --------
    >>> len(load_traces()), [trace.trace_id for trace in load_traces(split="dev", regime="geo")]
    (50, ['geo-31306', 'geo-27566'])
    >>> [trace.trace_id for trace in load_traces(config="energy", split="dev", regime="geo")]
    ['geo-31306@cubesat-6u', 'geo-27566@cubesat-6u']
    """
    if not isinstance(config, str) or config not in ("traces", "energy"):
        raise InputError(f"traces are in the configs traces and energy, got {config!r}")
    _require_one_of("split", split, SPLITS)
    _require_one_of("regime", regime, REGIMES)
    folder, manifest = open_release(source, version)
    _require_config(manifest, config)
    traces = []
    for file in manifest.files_of(config, split):
        for row in _rows(_read(folder, manifest, file.path, file.rows)):
            trace = Trace.from_row(row)
            object.__setattr__(trace, "split", file.split)
            object.__setattr__(trace, "release", manifest.label)
            traces.append(trace)
    return [trace for trace in traces if regime in (None, trace.regime)]


def load_trace(trace_id: str, *, source: str | Path | None = None, version: str | None = None) -> Trace:
    """Load one trace.

    Parameters
    ----------
    trace_id : str
        For example ``leo-25544``, or ``leo-25544@cubesat-6u`` of the config ``energy``.
    source, version
        As for `load_traces`.

    Returns
    -------
    Trace

    Raises
    ------
    UnknownTraceError
        With the ids that come near it.

    Examples
    --------
    >>> load_trace("geo-41866").gap_count > 0
    True
    """
    if not isinstance(trace_id, str):
        raise InputError(f"a trace id is a text such as leo-25544, got {trace_id!r}")
    config = "energy" if "@" in trace_id else "traces"
    traces = {t.trace_id: t for t in load_traces(config=config, source=source, version=version)}
    if trace_id not in traces:
        raise UnknownTraceError(trace_id, list(traces))
    return traces[trace_id]


def load_table(
    config: str,
    *,
    split: Literal["dev", "test"] | None = None,
    source: str | Path | None = None,
    version: str | None = None,
) -> "pa.Table":
    """Load one config of a release as a table.

    Parameters
    ----------
    config : {"traces", "intervals", "shadows", "elements", "energy"}
    split, source, version
        As for `load_traces`.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    InputError
        If the release has no such config.

    Examples
    --------
    >>> load_table("shadows").column_names[:4]
    ['trace_id', 'occluder', 'depth', 'start_ms']
    """
    import pyarrow as pa

    folder, manifest = open_release(source, version)
    _require_config(manifest, config)
    _require_one_of("split", split, SPLITS)
    files = manifest.files_of(config, split)
    if not files:
        raise InputError(f"config {config} of this release has no split {split!r}")
    return pa.concat_tables([_read(folder, manifest, file.path, file.rows) for file in files])


def _require_one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value is not None and not (isinstance(value, str) and value in allowed):
        raise InputError(f"{what} must be one of {', '.join(allowed)}, got {value!r}")


def _require_config(manifest: Manifest, config: str) -> None:
    if not isinstance(config, str) or config not in manifest.schema:
        raise InputError(
            f"this release, data version {manifest.label}, has the configs {', '.join(manifest.schema)}, got {config!r}"
        )


def same_traces(releases: Iterable[str]) -> bool:
    """Tell whether data releases hold the same traces, so that results under them compare.

    Parameters
    ----------
    releases : iterable of str
        As `Trace.release` names them.

    Examples
    --------
    >>> same_traces(["1.0.0", "1.1.0"]), same_traces(["1.1.0", "0.1.0, derived from mine"])
    (True, False)
    """
    frozen = _frozen()
    return len({frozen.get(release, {}).get("traces_digest", release) for release in releases}) <= 1


def open_release(source: str | Path | None = None, version: str | None = None) -> tuple[Path, Manifest]:
    """Find a release, check its manifest and every data file, and return its folder and manifest.

    Parameters
    ----------
    source, version
        As for `load_traces`.

    Returns
    -------
    (Path, Manifest)
    """
    if version is not None:
        check_version(version)
    if source is None:
        folder = BUNDLED
    elif not isinstance(source, str | os.PathLike) or not str(source):
        raise InputError(
            f"source must be a release folder or a Hub id such as namespace/orbittrace, got {source!r}"
        )
    elif is_hub_id(source):
        return _open_from_hub(str(source), version)
    elif os.path.isdir(source):  # noqa: PTH112 - False, not an error, for a name that no system can hold
        folder = Path(source)
    else:
        raise InputError(
            f"source {str(source)!r} is neither a folder here nor a Hub dataset: give a release folder "
            "(`orbittrace export` writes one) or an id such as namespace/orbittrace"
        )
    return _open_folder(folder, version, str(source or "the bundled release"))


def _open_from_hub(repo_id: str, version: str | None) -> tuple[Path, Manifest]:
    from .hub import cache_folder, download_release

    folder = download_release(repo_id, version)
    try:
        return _open_folder(folder, version, repo_id)
    except ReleaseError as error:
        raise ReleaseError(f"{error}; remove {cache_folder(repo_id)} to have it downloaded again") from None


def _open_folder(folder: Path, version: str | None, called: str) -> tuple[Path, Manifest]:
    manifest = _checked(folder, _stamp(folder))
    if version not in (None, manifest.version):
        again = (
            f"`orbittrace build --data-version {version}` makes it again"
            if folder == BUNDLED and version in _frozen()
            else "ask for that one, or name another source"
        )
        raise VersionError(f"{called} holds data version {manifest.version}, not {version}: {again}")
    return folder, manifest


@lru_cache(maxsize=8)
def _checked(folder: Path, stamp: tuple[tuple[str, int, int], ...]) -> Manifest:
    """Check a release once, and again whenever a file's time or size has changed."""
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    require_frozen_content(manifest, str(folder))
    stated = _frozen().get(manifest.version, {}).get("manifest_sha256")
    if folder == BUNDLED and file_sha256(folder / MANIFEST_NAME) != stated:
        raise ReleaseError(
            f"the release inside this package ({folder}) was changed: install the package again"
        )
    if manifest.kind == "derived":
        _log.warning(
            "%s is derived from the element sets %s: it is not the OrbitTrace benchmark",
            folder,
            manifest.snapshot.get("name"),
        )
    return manifest


def require_frozen_content(manifest: Manifest, where: str) -> None:
    """Raise a ReleaseError if a benchmark release does not hold the rows that its version was published with."""
    frozen = _frozen()
    if manifest.kind != "benchmark" or manifest.version not in frozen:
        return
    published = frozen[manifest.version]["content_digest"]
    if manifest.content_digest != published:
        raise ReleaseError(
            f"{where} calls itself the OrbitTrace benchmark {manifest.version}, but its rows have the content digest "
            f"{manifest.content_digest[:16]}..., published were {published[:16]}...: get the release again"
        )


def _frozen() -> dict[str, dict[str, str]]:
    """Return the published digests of every data version."""
    return json.loads(FROZEN.read_bytes())


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Give times and sizes of the files that are checked; of a folder without a manifest nothing is looked at."""
    if not (folder / MANIFEST_NAME).is_file():
        return ()
    stamp = []
    for path in (folder / MANIFEST_NAME, folder / CARD_NAME, *parquet_files(folder)):
        try:
            status = path.stat()
            stamp.append((str(path), status.st_mtime_ns, status.st_size))
        except OSError:  # it is not there, or no longer: the check itself says so
            stamp.append((str(path), -1, -1))
    return tuple(stamp)


def is_hub_id(source: str | Path) -> bool:
    """Tell whether a source can only be an id on the Hub: two names, and no folder here.

    Examples
    --------
    >>> is_hub_id("namespace/orbittrace"), is_hub_id("./orbittrace"), is_hub_id("orbittrace")
    (True, False, False)
    """
    if not isinstance(source, str) or source.startswith((".", "~")) or os.path.exists(source):  # noqa: PTH110 - as above
        return False
    parts = source.split("/")
    return len(parts) == 2 and all(parts)


def _rows(table: "pa.Table") -> list[dict[str, Any]]:
    """Return rows as ``to_pylist`` does, without its import of pandas (0.3 s) and cast's of pyarrow.compute."""
    import pyarrow as pa

    origin = datetime(1970, 1, 1, tzinfo=UTC)
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            instants_ms = table.column(index).combine_chunks().view(pa.int64())
            table = table.set_column(index, field.name, instants_ms)
    instants = [name for name in ("epoch", "start") if name in table.column_names]
    rows = table.to_pylist()
    for row in rows:
        for name in instants:
            row[name] = origin + timedelta(milliseconds=row[name])
    return rows


def _read(folder: Path, manifest: Manifest, path: str, rows: int) -> "pa.Table":
    """Read one data file and hold it to the schema of this package version."""
    import pyarrow.parquet as pq

    from .schema import CONFIGS

    config = path.split("/")[1]
    with pq.ParquetFile(folder / path) as file:  # read_table would import pandas, for half a second
        table = file.read(use_threads=False)
    expected = CONFIGS.get(config)
    if expected is not None and [(f.name, f.type) for f in table.schema] != [
        (f.name, f.type) for f in expected
    ]:
        raise ReleaseError(
            f"{folder / path} has other columns than this version of orbittrace-data reads: "
            f"upgrade the package, or ask for a data version that it knows ({manifest.version} is this one)"
        )
    if table.num_rows != rows:
        raise ReleaseError(f"{folder / path} holds {table.num_rows} rows, its manifest says {rows}")
    return table
