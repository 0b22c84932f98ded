"""Satellites' traces as one spacecraft's payload meets them: of any shadows, and a release's ``energy`` config."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ..energy import energy_trace
from ..power_model import PowerModel
from ..schema import TRACES, round_columns
from ..trace import Trace

if TYPE_CHECKING:
    from .contacts import Shadows

# A row of ``traces`` (`Trace.from_row` reads it), and what is true of the spacecraft's battery beside it.
ENERGY = pa.schema(
    [
        *TRACES,
        pa.field("spacecraft", pa.string(), nullable=False),
        pa.field("sunlit_share", pa.float64(), nullable=False),
        pa.field("lowest_soc", pa.float64(), nullable=False),
    ]
)
ENERGY_DECIMALS = {"sunlit_share": 9, "lowest_soc": 9}


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
        One row a trace, keyed by the satellite's ``trace_id`` as every other config; ``duty_cycle``,
        ``gap_count``, ``longest_gap_ms`` and the gaps are those of the payload, ``sunlit_share`` is the
        ``duty_cycle`` in ``traces``, and ``lowest_soc`` the least state of charge.

    Examples
    --------
    >>> from orbittrace_data import load_table, load_trace
    >>> model = PowerModel.read("cubesat-6u")
    >>> row = energy_table([load_trace("leo-43613")], load_table("shadows"), model).to_pylist()[0]
    >>> row["gap_count"], round(row["duty_cycle"], 4), row["spacecraft"]
    (14, 0.9895, 'cubesat-6u')
    """
    rows = []
    for trace in traces:
        energy, profile = energy_trace(trace, shadows, model)
        rows.append(
            energy.to_row()
            | {
                "trace_id": trace.trace_id,
                "spacecraft": model.name,
                "sunlit_share": round(trace.duty_cycle, ENERGY_DECIMALS["sunlit_share"]),
                "lowest_soc": round(float(profile.soc.min()), ENERGY_DECIMALS["lowest_soc"]),
            }
        )
    columns = round_columns({name: [row[name] for row in rows] for name in ENERGY.names})
    return pa.table(columns, schema=ENERGY)


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
    names = ("occluder", "depth", "start_ms", "stop_ms", "max_obscuration")
    return [
        energy_trace(trace, {n: getattr(shadows, n)[shadows.satellite == i] for n in names}, model)[0]
        for i, trace in enumerate(traces)
    ]
