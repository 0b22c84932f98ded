"""The rows of a release: from traces, shadows and element sets to the tables of `orbittrace_data.schema`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..power_model import PowerModel
from ..schema import ELEMENTS, INTERVALS, SHADOWS, TRACES, round_columns
from ..trace import Trace
from .element_set import ElementSet
from .energy_table import energy_table

if TYPE_CHECKING:
    from .contacts import Shadows


def release_tables(
    element_sets: Sequence[ElementSet],
    traces: Sequence[Trace],
    shadows: "Shadows",
    power: PowerModel | None = None,
) -> dict[str, pa.Table]:
    """Make the tables of all configs for some satellites.

    Parameters
    ----------
    element_sets, traces : sequences of equal length
        One of each a satellite.
    shadows : Shadows
        Whose ``satellite`` indexes them.
    power : PowerModel, optional
        Of the config ``energy``, which there is only with one.

    Returns
    -------
    dict of str to pyarrow.Table
        In the order of `orbittrace_data.schema.CONFIGS`.
    """
    tables = {
        "traces": traces_table(traces),
        "intervals": intervals_table(traces),
        "shadows": shadows_table(traces, shadows),
        "elements": elements_table(element_sets, traces),
    }
    if power is not None:
        tables["energy"] = energy_table(traces, tables["shadows"], power)
    return tables


def traces_table(traces: Sequence[Trace]) -> pa.Table:
    """One row a trace."""
    rows = [trace.to_row() for trace in traces]
    columns = {name: [row[name] for row in rows] for name in TRACES.names}
    return _table(columns, TRACES)


def intervals_table(traces: Sequence[Trace]) -> pa.Table:
    """Windows and gaps of every trace in the order of time, one row each."""
    counts, available, edges, origins = [], [], [], []
    for trace in traces:
        both = np.concatenate([trace.windows, trace.gaps])
        order = np.argsort(both[:, 0], kind="stable")
        counts.append(len(both))
        available.append((np.arange(len(both)) < len(trace.windows))[order])
        edges.append(both[order])
        origins.append(np.full(len(both), _start_ms(trace)))
    flat = np.concatenate(edges) if edges else np.empty((0, 2), np.int64)
    origin = np.concatenate(origins) if origins else np.empty(0, np.int64)
    return pa.table(
        {
            "trace_id": _repeat([trace.trace_id for trace in traces], counts),
            "available": np.concatenate(available) if available else np.empty(0, bool),
            "start_ms": flat[:, 0],
            "stop_ms": flat[:, 1],
            "start": pa.array(flat[:, 0] + origin).cast(INTERVALS.field("start").type),
            "stop": pa.array(flat[:, 1] + origin).cast(INTERVALS.field("stop").type),
        },
        schema=INTERVALS,
    )


def shadows_table(traces: Sequence[Trace], shadows: "Shadows") -> pa.Table:
    """Make the rows of every trace's shadow intervals."""
    kept = np.isin(shadows.depth, ("penumbra", "half", "umbra"))
    obscuration = np.where(shadows.depth == "penumbra", shadows.max_obscuration, np.nan)[kept]
    columns = {
        "trace_id": pa.array([trace.trace_id for trace in traces], pa.string()).take(
            pa.array(shadows.satellite[kept])
        ),
        "occluder": pa.array(shadows.occluder[kept], pa.string()),
        "depth": pa.array(shadows.depth[kept], pa.string()),
        "start_ms": shadows.start_ms[kept],
        "stop_ms": shadows.stop_ms[kept],
        "cut_start": shadows.cut_start[kept],
        "cut_stop": shadows.cut_stop[kept],
        "max_obscuration": obscuration,
    }
    return _table(columns, SHADOWS)


def elements_table(element_sets: Sequence[ElementSet], traces: Sequence[Trace]) -> pa.Table:
    """Make a row for the element set of each trace, so that a release can be rebuilt from itself."""
    columns: dict[str, object] = {
        name: [getattr(elements, name) for elements in element_sets]
        for name in ELEMENTS.names
        if name not in ("trace_id", "epoch")
    }
    columns["trace_id"] = [trace.trace_id for trace in traces]
    columns["epoch"] = pa.array([e.epoch_us for e in element_sets], pa.int64()).cast(
        ELEMENTS.field("epoch").type
    )
    return _table(columns, ELEMENTS)


def element_sets_of(table: pa.Table) -> list[ElementSet]:
    """Read element sets back from the ``elements`` table of a release.

    Examples
    --------
    >>> from orbittrace_data import load_table
    >>> 25544 in {elements.catalog_number for elements in element_sets_of(load_table("elements"))}
    True
    """
    epochs = table["epoch"].cast(pa.int64()).to_pylist()
    rows = table.drop_columns(["trace_id", "epoch"]).to_pylist()
    return [ElementSet(epoch_us=epoch, **row) for epoch, row in zip(epochs, rows, strict=True)]


def _table(columns: dict, schema: pa.Schema) -> pa.Table:
    rounded = round_columns(columns)
    return pa.table({name: rounded[name] for name in schema.names}, schema=schema)


def _start_ms(trace: Trace) -> int:
    assert trace.start is not None, "a satellite's trace has a date"
    return round(trace.start.timestamp() * 1000)


def _repeat(values: list[str], counts: list[int]) -> list[str]:
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
