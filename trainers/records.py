"""What is kept of a run: one row of a fixed schema. Reports and verdicts are made of rows alone."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..atomic import write_bytes
from ..errors import InputError

if TYPE_CHECKING:
    from .loop import Result
    from .study import Run

FORMAT = "1"
CURVE_POINTS = 40
Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        pa.field("config", pa.string(), nullable=False),  # digest of the run's config: the row's key
        pa.field("study", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),  # tune or report
        pa.field("error", pa.string()),  # null where the run finished
        # What was run.
        pa.field("task", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("method_json", pa.string(), nullable=False),
        pa.field("persists", pa.string(), nullable=False),
        pa.field("drift_at", pa.list_(pa.int64()), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("order_seed", pa.int64(), nullable=False),
        pa.field("steps", pa.int64(), nullable=False),
        pa.field("step_s", pa.float64(), nullable=False),
        pa.field("lr", pa.float64(), nullable=False),
        pa.field("lr_factor", pa.float64(), nullable=False),
        pa.field("tuned_on", pa.string(), nullable=False),
        pa.field("warmup", pa.float64(), nullable=False),
        pa.field("precision", pa.string(), nullable=False),
        pa.field("threads", pa.int64(), nullable=False),
        pa.field("data_sha256", pa.string(), nullable=False),
        # Under which trace, and what of it the run met.
        pa.field("trace", pa.string(), nullable=False),
        pa.field("split", pa.string()),
        pa.field("release", pa.string()),
        pa.field("duty_cycle", pa.float64(), nullable=False),
        pa.field("gaps", pa.int64(), nullable=False),
        pa.field("window_steps", pa.float64(), nullable=False),  # median over whole windows
        pa.field("delta", pa.float64(), nullable=False),  # median [steps]
        pa.field("gap_start_s", pa.list_(pa.float64()), nullable=False),
        pa.field("gap_stop_s", pa.list_(pa.float64()), nullable=False),
        # What came out; null where it failed.
        pa.field("validation_loss", pa.float64()),
        pa.field("accuracy", pa.float64()),
        pa.field("evaluated_step", pa.list_(pa.int64())),
        pa.field("evaluated_loss", pa.list_(pa.float64())),
        pa.field("curve_step", pa.list_(pa.int64())),  # last step of each stretch
        pa.field("curve_wall_s", pa.list_(pa.float64())),
        pa.field("curve_active_s", pa.list_(pa.float64())),
        pa.field("curve_loss", pa.list_(pa.float64())),  # mean training loss of the stretch
        pa.field("weights_sha256", pa.string()),
        pa.field("state_sha256", pa.string()),
        pa.field("fingerprint", pa.string()),  # JSON
        pa.field("train_s", pa.float64()),  # time it took; no part of `rows_digest`
    ],
    metadata={"orbittrace.runs": FORMAT},
)
OUTCOME = SCHEMA.names[SCHEMA.get_field_index("validation_loss") :]
NOT_A_RESULT = ("study", "train_s", "error")


class RecordsError(InputError):
    """Rows that cannot be read, or that contradict each other."""


def planned_row(run: "Run", study: str) -> Row:
    """Return the columns of a row that are known before the run, the others null."""
    config = run.config
    identity, plan, trace = config.identity(), config.plan, config.trace
    whole = plan.step_count[:-1] if plan.window_count > 1 else plan.step_count
    return dict.fromkeys(SCHEMA.names) | {
        "config": config.digest,
        "study": study,
        "stage": run.stage,
        "task": config.resolved_task.name,
        "method": config.resolved_method.name,
        "method_json": json.dumps(identity["method"], sort_keys=True),
        "persists": config.regime.persists,
        "drift_at": list(config.regime.drift_at),
        "seed": config.seed,
        "order_seed": identity["order_seed"],
        "steps": plan.steps,
        "step_s": config.resolved_task.step_s,
        "lr": identity["lr"],
        "lr_factor": run.lr_factor,
        "tuned_on": run.tuned_on,
        "warmup": identity["warmup"],
        "precision": config.precision,
        "threads": config.threads,
        "data_sha256": identity["data_sha256"],
        "trace": trace.trace_id,
        "split": trace.split,
        "release": trace.release,
        "duty_cycle": trace.duty_cycle,
        "gaps": plan.window_count - 1,
        "window_steps": float(np.median(whole)),
        "delta": float(np.median(plan.delta[1:])) if plan.window_count > 1 else 0.0,
        "gap_start_s": (plan.window_stop_ns[:-1] / 1e9).tolist(),
        "gap_stop_s": (plan.window_start_ns[1:] / 1e9).tolist(),
    }


def outcome(result: "Result") -> Row:
    """Return the columns of a row that the run decides."""
    log = result.log
    points = min(CURVE_POINTS, len(log))
    ends = np.linspace(0, len(log), points + 1).round().astype(int)[1:]
    losses = np.split(log["loss"].to_numpy(), ends[:-1])
    evaluated = [
        (row["step"] + 1, row["validation_loss"])
        for row in log.to_pylist()
        if row.get("validation_loss") is not None
    ]
    evaluated.append((result.steps, result.measures["validation_loss"]))
    last = ends - 1
    return {
        "validation_loss": result.measures["validation_loss"],
        "accuracy": result.measures.get("accuracy"),
        "evaluated_step": [step for step, _ in evaluated],
        "evaluated_loss": [loss for _, loss in evaluated],
        "curve_step": last.tolist(),
        "curve_wall_s": (log["wall_ns"].to_numpy()[last] / 1e9).tolist(),
        "curve_active_s": (log["active_ns"].to_numpy()[last] / 1e9).tolist(),
        "curve_loss": [float(part.mean()) for part in losses],
        "weights_sha256": result.weights_sha256,
        "state_sha256": result.state_sha256,
        "fingerprint": json.dumps(result.fingerprint, sort_keys=True),
        "train_s": result.train_s,
    }


def finished(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of runs that did not fail."""
    return [row for row in rows if row["error"] is None]


def rows_digest(rows: Iterable[Row]) -> str:
    """sha256 (hex) of the results, whatever order they came in and however long they took."""
    lines = sorted(
        json.dumps({k: v for k, v in row.items() if k not in NOT_A_RESULT}, sort_keys=True) for row in rows
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as parquet, in a fixed order."""
    ordered = sorted(rows, key=lambda r: (r["stage"], r["task"], r["persists"], r["drift_at"], r["config"]))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ordered, SCHEMA), sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes())


def read_rows(folders: Sequence[Path]) -> list[Row]:
    """Read the rows of result folders and merge them.

    Raises
    ------
    RecordsError
        If a folder holds no rows, has another schema, or the same config came to different results on
        the same kind of machine.
    """
    merged: dict[tuple[str, str], Row] = {}
    for folder in folders:
        path = folder / "rows.parquet"
        if not path.is_file():
            raise RecordsError(f"{folder} holds no results: a result folder has a file rows.parquet")
        try:
            table = pq.read_table(path)
        except pa.ArrowException as error:
            raise RecordsError(f"{path} cannot be read: {error}") from None
        if not table.schema.equals(SCHEMA) or (table.schema.metadata or {}).get(b"orbittrace.runs") != b"1":
            raise RecordsError(
                f"{path} does not have the schema of format {FORMAT}: run the study again with this version"
            )
        for row in table.to_pylist():
            key = (row["config"], row["fingerprint"] or "")
            there = merged.get(key)
            if there is not None and not _same(there, row):
                raise RecordsError(
                    f"{path}: config {row['config'][:12]} ({row['task']}, {row['method']}, seed {row['seed']}) has "
                    "another result here than in another folder, on the same kind of machine: one was changed"
                )
            merged[key] = row
    ran = {config for config, fingerprint in merged if fingerprint}
    return [row for (config, fingerprint), row in merged.items() if fingerprint or config not in ran]


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Compare two results of one config, which names the gaps themselves.

    In which release they stood, and what else its learning rate was tuned on, is no matter. NaN equals NaN.
    """
    results = [name for name in SCHEMA.names if name not in (*NOT_A_RESULT, "release", "tuned_on")]
    return repr([a[name] for name in results]) == repr([b[name] for name in results])
