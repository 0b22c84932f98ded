from dataclasses import asdict

import numpy as np

from orbittrace_data import PowerModel, Trace, energy_trace, load_table, load_traces
from orbittrace_data.builders.recipe import BENCHMARK_POWER, LATEST
from orbittrace_data.loader import open_release


def test_every_released_trace_has_its_energy_row():
    traces, shadows, table = load_traces(), load_table("shadows"), load_table("energy")
    model = BENCHMARK_POWER[LATEST]
    assert table["trace_id"].to_pylist() == [f"{trace.trace_id}@cubesat-6u" for trace in traces]
    for trace, row in list(zip(traces, table.to_pylist(), strict=True))[::7]:
        energy, profile = energy_trace(trace, shadows, model)
        read = Trace.from_row(row)
        assert np.array_equal(read.gaps, energy.gaps)
        assert (read.start, read.orbit) == (trace.start, trace.orbit)
        assert row["lowest_soc"] == round(float(profile.soc.min()), 9)
    for trace, row in zip(traces, table.to_pylist(), strict=True):
        assert row["sunlit_share"] == round(trace.duty_cycle, 9)
        assert (
            0.7 - 1e-6 < row["lowest_soc"] <= 1 or row["gap_count"]
        )  # it pauses before it falls below min_soc
        if trace.is_control:  # what is never dark never pauses
            assert (row["gap_count"], row["lowest_soc"]) == (0, 1)


def test_the_release_states_the_power_system_and_it_is_the_spacecraft_that_ships():
    model = PowerModel(**open_release()[1].power)
    assert model == BENCHMARK_POWER[LATEST] == PowerModel.read("cubesat-6u")
    assert set(asdict(model)) == set(open_release()[1].power)
