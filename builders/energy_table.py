"""Satellites' traces as one spacecraft's payload meets them: of any shadows, and a release's ``energy`` config."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..energy import energy_trace
from ..power_model import PowerModel
from ..schema import ENERGY, round_columns
from ..trace import Trace

if TYPE_CHECKING:
    from .contacts import Shadows

_COLUMNS = ("occluder", "depth", "start_ms", "stop_ms", "max_obscuration")


def energy_table(traces: Sequence[Trace], shadows: pa.Table, model: PowerModel) -> pa.Table:
    """Make the rows of the ``energy`` config.

    Parameters
    ----------
    traces : sequence of Trace
        Of the release, in its order.
    shadows : pyarrow.Table
        The release's ``shadows`` config, for all of them.
    model : PowerModel

    Returns
    -------
    pyarrow.Table
        One row a trace, named as `resolve_trace` knows it, ``leo-25544@cubesat-6u``; ``duty_cycle``,
        ``gap_count``, ``longest_gap_ms`` and the gaps are those of the payload, ``sunlit_share`` is the
        ``duty_cycle`` in ``traces``, and ``lowest_soc`` the least state of charge.

    Examples
    --------
    >>> from orbittrace_data import load_table, load_trace
    >>> model = PowerModel.read("cubesat-6u")
    >>> row = energy_table([load_trace("leo-43613")], load_table("shadows"), model).to_pylist()[0]
    >>> row["trace_id"], row["gap_count"], round(row["duty_cycle"], 4)
    ('leo-43613@cubesat-6u', 14, 0.9895)
    """
    owner = np.asarray(shadows["trace_id"])
    columns = {name: np.asarray(shadows[name]) for name in _COLUMNS}
    rows = []
    for trace in traces:
        mine = owner == trace.trace_id
        energy, profile = energy_trace(trace, {n: column[mine] for n, column in columns.items()}, model)
        rows.append(
            energy.to_row()
            | {
                "spacecraft": model.name,
                "sunlit_share": trace.duty_cycle,
                "lowest_soc": float(profile.soc.min()),
            }
        )
    rounded = round_columns({name: [row[name] for row in rows] for name in ENERGY.names})
    return pa.table({name: rounded[name] for name in ENERGY.names}, schema=ENERGY)


def energy_traces(traces: Sequence[Trace], shadows: "Shadows", model: PowerModel) -> list[Trace]:
    """Make the energy trace of each satellite from its shadow intervals.

    Parameters
    ----------
    traces : sequence of Trace
        One a satellite, as `satellite_trace.satellite_traces` makes them of the same shadows.
    shadows : Shadows
        Whose ``satellite`` indexes them.
    model : PowerModel

    Returns
    -------
    list of Trace
    """
    return [
        energy_trace(trace, {n: getattr(shadows, n)[shadows.satellite == i] for n in _COLUMNS}, model)[0]
        for i, trace in enumerate(traces)
    ]
