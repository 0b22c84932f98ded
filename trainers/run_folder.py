"""The folder of one run: config, log, checkpoints and, at the end, the result.

========================  =========================================================================
``config.json``           everything that decides the run, the trace's gaps included, and its digest
``log.jsonl``             one row a step, as they come
``log.parquet``           the same, when the run ends or is stopped
``checkpoints/``          the newest ones (`checkpoint`)
``result.json``           measures, digests and fingerprint of a finished run
========================  =========================================================================
"""

import fcntl
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from ..atomic import write_bytes
from ..errors import InputError
from .config import Config
from .loop import Result


class RunFolderError(InputError):
    """A folder that does not belong to the run, or is in use."""


def run_name(config: Config) -> str:
    """Return the name of a run's folder: what one looks for, and the digest's beginning."""
    parts = (
        config.resolved_task.name,
        config.trace.trace_id,
        config.resolved_method.name,
        f"seed{config.seed}",
        config.digest[:8],
    )
    return "-".join("".join(c if c.isalnum() or c in "-+._" else "_" for c in part) for part in parts)


@contextmanager
def opened(folder: Path, config: Config) -> Iterator[Path]:
    """Make or enter a run's folder, for this process alone.

    Raises
    ------
    RunFolderError
        If it belongs to another run, or another process trains into it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFolderError(f"another process trains into {folder}: wait for it or stop it") from None
        path = folder / "config.json"
        if not path.exists():
            text = json.dumps({"digest": config.digest} | config.to_json(), indent=1)
            write_bytes(path, text.encode())
        yield folder


def read_config(folder: Path) -> Config:
    """Read the config of a run's folder.

    Raises
    ------
    RunFolderError
        If there is none.
    """
    try:
        values = json.loads((folder / "config.json").read_text())
        values.pop("digest")
        return Config.from_json(values)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{folder} holds no run: config.json: {error}") from None


def write_result(folder: Path, result: Result) -> None:
    """Write what a finished run came to; a measure that is not finite becomes null."""
    measures = {name: value if math.isfinite(value) else None for name, value in result.measures.items()}
    values = {
        "config_digest": result.config.digest,
        "steps": result.steps,
        "measures": measures,
        "weights_sha256": result.weights_sha256,
        "state_sha256": result.state_sha256,
        "fingerprint": result.fingerprint,
    }
    write_bytes(folder / "result.json", json.dumps(values, indent=1).encode())


def read_result(folder: Path, config: Config) -> Result | None:
    """Return the result of a finished run of this config, None where there is none."""
    try:
        values = json.loads((folder / "result.json").read_text())
        if values["config_digest"] != config.digest:
            return None
        log = pq.read_table(folder / "log.parquet")
    except (OSError, ValueError, KeyError):
        return None
    measures = {name: math.nan if value is None else value for name, value in values["measures"].items()}
    return Result(
        config,
        values["steps"],
        True,
        measures,
        log,
        values["weights_sha256"],
        values["state_sha256"],
        values["fingerprint"],
        resumed_from=values["steps"],
        train_s=0.0,
    )
