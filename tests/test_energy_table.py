import numpy as np

from orbittrace_data import PowerModel, Trace, energy_trace, load_table, load_traces
from orbittrace_data.builders.energy_table import ENERGY, energy_table


def test_every_released_trace_has_its_energy_row():
    traces, shadows = load_traces(), load_table("shadows")
    model = PowerModel.read("cubesat-6u")
    table = energy_table(traces, shadows, model)
    assert table.schema == ENERGY
    assert table["trace_id"].to_pylist() == [trace.trace_id for trace in traces]
    for trace, row in list(zip(traces, table.to_pylist(), strict=True))[::7]:
        energy, profile = energy_trace(trace, shadows, model)
        read = Trace.from_row(row)
        assert np.array_equal(read.gaps, energy.gaps)
        assert (read.start, read.orbit) == (trace.start, trace.orbit)
        assert row["lowest_soc"] == round(float(profile.soc.min()), 9)
        assert row["sunlit_share"] == round(trace.duty_cycle, 9)
    # What is never dark never pauses, and what is dark in every orbit may.
    for trace, row in zip(traces, table.to_pylist(), strict=True):
        if trace.is_control:
            assert row["gap_count"] == 0
