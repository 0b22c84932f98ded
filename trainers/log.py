"""The log of a run: one row a step, cut back to the checkpoint's position on a resume."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ..atomic import sync_directory
from .checkpoint import CheckpointError

COLUMNS = {
    "step": pa.int64(),
    "window": pa.int64(),
    "delta": pa.int64(),
    "wall_ns": pa.int64(),
    "active_ns": pa.int64(),
    "lr": pa.float64(),
    "loss": pa.float64(),
    "grad_norm": pa.float64(),
}


class Log:
    """Rows in memory and, for a run with a folder, in ``log.jsonl`` as they come.

    Values that are tensors stay on their device until the next flush, so that logging a loss does not
    make every step wait for a GPU.
    """

    def __init__(self, folder: Path | None, rows: int = 0):
        self.path = None if folder is None else folder / "log.jsonl"
        self.rows: list[dict[str, Any]] = []
        self._flushed = 0
        if self.path is None:
            return
        self._flushed = rows
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        if len(lines) < rows:
            raise CheckpointError(
                f"{self.path} holds {len(lines)} rows, the checkpoint continues after row {rows}: "
                "the log was cut or removed; train into another folder"
            )
        self.rows = [json.loads(line) for line in lines[:rows]]
        self.path.touch()
        os.truncate(self.path, sum(map(len, lines[:rows])))  # cut in place: a kill here loses no row

    def append(self, **row: Any) -> None:
        """Add a row."""
        self.rows.append(row)

    def flush(self) -> None:
        """Fetch pending values and write pending rows durably."""
        pending = self.rows[self._flushed :]
        for name in ("loss", "grad_norm"):
            tensors = [row[name] for row in pending if isinstance(row[name], torch.Tensor)]
            if tensors:
                values = iter(torch.stack(tensors).double().tolist())  # one transfer for all rows
                for row in pending:
                    if isinstance(row[name], torch.Tensor):
                        row[name] = next(values)
        if self.path is not None and pending:
            with self.path.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in pending)
            sync_directory(self.path)
        self._flushed = len(self.rows)

    def table(self) -> pa.Table:
        """Return the rows; measures of evaluations along the way are null where there was none."""
        self.flush()
        measures = sorted({name for row in self.rows for name in row} - set(COLUMNS))
        schema = pa.schema(COLUMNS | dict.fromkeys(measures, pa.float64()))
        return pa.Table.from_pylist(self.rows, schema)

    def write_parquet(self) -> None:
        """Write ``log.parquet`` beside ``log.jsonl``."""
        assert self.path is not None
        temporary = self.path.with_name(".log.parquet.tmp")
        pq.write_table(self.table(), temporary)
        temporary.replace(self.path.with_name("log.parquet"))
