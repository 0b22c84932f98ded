"""`orbittrace advise`; what committed studies say is held to their rows in test_report."""

import numpy as np
import pytest
from comparison_rows import pause_rows, row, study_rows

from orbittrace_data import Trace, load_trace
from orbittrace_data.cli import run
from orbittrace_data.trainers.advise import AdviseError, advise, nearest
from orbittrace_data.trainers.records import write_rows

HOURLY = Trace("hourly", 4 * 3_600_000, [[k * 3_600_000 + 2_400_000, (k + 1) * 3_600_000] for k in range(4)])


@pytest.fixture
def results(tmp_path):
    effects = {("strong", "all", False): 0.0, ("weak", "all", False): 0.1, ("strong", "nothing", False): 0.3}
    write_rows(tmp_path / "rows.parquet", study_rows(effects))
    return [tmp_path]


def test_costs_by_hand():
    # A window of 40 min and a save of 10 s: 239 steps of 10 s at first, then 238 after a restore of 10 s.
    advice = advise(HOURLY, step_s=10, state_gb=10, disk_gb_s=1, results=[])
    assert advice.plan.step_count[:4].tolist() == [239, 238, 238, 238]
    assert (advice.window_steps, advice.delta) == (238, 120)
    assert advice.cost.save_ns == advice.plan.window_count * 10 * 10**9
    assert advice.cost.restore_ns == (advice.plan.window_count - 1) * 10 * 10**9
    assert not advice.state_loss
    assert "State loss is not forced" in " ".join(advice.sentences())


def test_weights_alone_are_a_third():
    advice = advise(HOURLY, step_s=10, state_gb=12, disk_gb_s=1, cannot_persist=True, results=[])
    assert advice.save_s == 4
    assert advice.state_loss


def test_the_nearest_case_is_quoted_and_said_not_to_be_ones_own(results):
    advice = advise(HOURLY, step_s=10, state_gb=10, disk_gb_s=1, results=results)
    assert {near.what for near in advice.nearest} == {
        "strong minus uninterrupted",
        "weak minus uninterrupted",
    }
    weak = next(near for near in advice.nearest if near.what.startswith("weak"))
    assert weak.difference.low < 0.1 < weak.difference.high
    assert not weak.measured
    assert "not measured at this scale" in " ".join(advice.sentences())
    lossy = advise(HOURLY, step_s=10, state_gb=10, disk_gb_s=1, cannot_persist=True, results=results)
    (near,) = lossy.nearest
    assert near.what == "strong, all optimizer state lost at each gap, minus uninterrupted"
    assert near.difference.mean == pytest.approx(0.3, abs=0.01)


def test_a_case_that_was_measured_is_said_so(results):
    # The rows' model has 1,000 parameters, their windows 29 steps and their gaps 17.
    own = Trace("own", 46 * 60_000 * 20, [[(46 * k + 29) * 60_000, 46 * (k + 1) * 60_000] for k in range(20)])
    advice = advise(own, step_s=60, state_gb=12e-6, disk_gb_s=1, results=results)
    assert all(near.measured for near in advice.nearest)
    assert "not measured" not in " ".join(advice.sentences())


def cost(folder, rows, **case):
    write_rows(folder / "rows.parquet", rows)
    given = {"parameters": 1000, "window_steps": 29, "delta": 17, "state_loss": False} | case
    return {near.what.split()[0].rstrip(","): near for near in nearest((folder,), **given)}


def test_the_seed_is_the_unit_averaged_over_the_traces_of_one_kind_of_orbit(tmp_path):
    # Each trace shifts all seeds: that is no scatter of the mean, and two traces are not twice the seeds.
    reference = study_rows({})
    loss = {r["seed"]: r["validation_loss"] for r in reference if r["seed"] == r["order_seed"]}
    shifts = {"leo-25544": 0.1, "leo-44233": 0.3, "geo-41866": 5.0}
    rows = [
        row(method="weak", trace=trace, seed=seed, loss=loss[seed] + shift + 0.01 * seed, delta=delta)
        for (trace, shift), delta in zip(shifts.items(), (17.0, 16.0, 35.0), strict=True)
        for seed in range(5)
    ]
    near = cost(tmp_path, reference + rows)["weak"]
    assert near.traces == ("leo-25544", "leo-44233")
    assert (near.delta, near.difference.seeds) == ((16, 17), 5)
    assert near.difference.mean == pytest.approx(0.22)
    half = (
        2.7764 * np.std([0.01 * seed for seed in range(5)], ddof=1) / np.sqrt(5)
    )  # Student's t table, 4 degrees
    assert near.difference.high - near.difference.mean == pytest.approx(half, rel=1e-4)


def test_each_length_of_pause_is_a_case_of_its_own(tmp_path):
    effects = {("strong", "nothing", False): 0.5}
    rows = study_rows(effects) + pause_rows({("m", 1): 0.4, ("m", 17): 0.0}, penalty=0.1)
    brief = cost(tmp_path, rows, window_steps=10, delta=2, state_loss=True)["strong"]
    assert (brief.traces, brief.window_steps, brief.delta) == (("pause-1200s-120s",), (10, 10), (1, 1))
    assert brief.difference.mean == pytest.approx(0.1, abs=0.01)
    assert brief.measured
    assert brief.tuned
    long = cost(tmp_path, rows, window_steps=29, delta=17, state_loss=True)["strong"]
    assert long.difference.mean == pytest.approx(0.5, abs=0.01)


def test_a_best_rate_at_the_end_of_the_grid_is_said(tmp_path):
    rows = study_rows({("weak", "all", False): 0.1})
    for one in rows:
        if one["stage"] == "tune" and one["lr_factor"] == 2.0:
            one["validation_loss"] = 1.0
    near = cost(tmp_path, rows)["weak"]
    assert not near.tuned
    assert "lies at the end of the grid that was tried" in near.sentence()


def test_a_state_that_no_window_can_hold():
    advice = advise(HOURLY, step_s=10, state_gb=3000, disk_gb_s=1, results=[])
    assert advice.plan is None
    assert "strong cannot run here" in advice.sentences()[0]


def test_a_trace_without_gaps_costs_one_save():
    advice = advise(load_trace("meo-40730"), step_s=10, state_gb=10, disk_gb_s=1, results=[])
    assert advice.delta == 0
    assert advice.cost.restore_ns == 0


@pytest.mark.parametrize("bad", [{"step_s": 0}, {"state_gb": -1}, {"disk_gb_s": float("nan")}])
def test_numbers_that_are_none_are_refused(bad):
    with pytest.raises(AdviseError, match=f"{next(iter(bad))} must be a positive number"):
        advise(HOURLY, **{"step_s": 1, "state_gb": 1, "disk_gb_s": 1} | bad)


def test_the_command(capsys):
    arguments = ["--trace", "leo-25544", "--step-s", "0.8", "--state-gb", "12", "--disk-gb-s", "1"]
    assert run(["advise", *arguments]) == 0
    assert "Under strong, leo-25544 costs 0.69% of the training time" in capsys.readouterr().out
    assert run(["advise", *arguments, "--cannot-persist"]) == 0
    assert "lost at each gap, because it cannot be persisted" in capsys.readouterr().out
    assert run(["advise", "--trace", "leo-99999", *arguments[2:]]) == 2
