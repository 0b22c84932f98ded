"""Training under forecasts that miss: lost steps run again, and no bit differs."""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orbittrace_data import Trace
from orbittrace_data.cli import run as orbittrace
from orbittrace_data.trainers import restart
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.loop import train
from orbittrace_data.trainers.run_folder import opened

ROOT = Path(__file__).parent.parent
MINUTE = 60_000
FORECAST = Trace("forecast", 92 * MINUTE, [[57 * MINUTE, 92 * MINUTE]])
EARLY = Trace("early", 92 * MINUTE, [[56 * MINUTE, 91 * MINUTE]])
OUTAGE = Trace("outage", 92 * MINUTE, [[20 * MINUTE, 22 * MINUTE], [57 * MINUTE, 92 * MINUTE]])
LATE_OUTAGE = Trace("late", 92 * MINUTE, [[50 * MINUTE, 52 * MINUTE], [57 * MINUTE, 92 * MINUTE]])
PACE = {"steps": 14, "step_s": 560}
SMALL = """
    import torch
    from orbittrace_data.trainers.order import sample_ids
    from orbittrace_data.trainers.tasks import Task

    POINTS = torch.randn(10, 6, generator=torch.Generator().manual_seed(5))

    def make():
        return Task(
            "own",
            lambda: torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)),
            lambda seed, step: POINTS[torch.from_numpy(sample_ids(seed, step, 4, 10))],
            lambda model, x: model(x).square().mean(),
            lambda model: {"validation_loss": float(model(POINTS).square().mean())},
        )
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Put the small task where this process and its children find it."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "small_task_of_a_forecast.py").write_text(textwrap.dedent(SMALL))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(modules), os.environ["PYTHONPATH"]]))
    monkeypatch.syspath_prepend(modules)
    return "small_task_of_a_forecast:make"


def bits(result):
    return result.state_sha256, result.log["loss"].to_pylist(), result.measures


@pytest.mark.parametrize("actual", [EARLY, OUTAGE])
def test_strong_is_uninterrupted_whatever_happens_and_pays_in_time(actual):
    held = Config("gpt2-tiny", FORECAST, save_s=30, save_every=4, **PACE)
    missed = replace(held, actual=actual)
    assert missed.plan.lost_count.sum() > 0
    strong = train(missed)
    assert bits(strong) == bits(train(Config("gpt2-tiny", FORECAST, "uninterrupted", **PACE)))
    assert missed.plan.cost().active_ns > held.plan.cost().active_ns
    assert strong.log["wall_ns"].to_pylist() == missed.plan.step_start_ns(np.arange(14)).tolist()


def test_a_schedule_on_the_wall_clock_sees_what_happened():
    weak = [train(Config("gpt2-tiny", FORECAST, "weak", actual=a, **PACE)) for a in (None, OUTAGE)]
    assert weak[0].log["lr"].to_pylist() != weak[1].log["lr"].to_pylist()


@pytest.mark.parametrize(
    ("method", "steps", "save_every", "actual"),
    [
        ("strong", 8, 4, LATE_OUTAGE),  # a step is lost behind the last save
        pytest.param("strong", 5, 0, OUTAGE, marks=pytest.mark.slow),  # all is lost: nothing was saved
        pytest.param("strong", 8, 2, OUTAGE, marks=pytest.mark.slow),  # gaps on and behind periodic saves
        pytest.param("aat", 8, 4, OUTAGE, marks=pytest.mark.slow),  # both
    ],
)
def test_lost_steps_run_again_after_real_kills(small, tmp_path, method, steps, save_every, actual):
    pace = {"steps": steps, "step_s": 560}
    config = Config(small, FORECAST, method, save_s=30, save_every=save_every, actual=actual, **pace)
    plan, folder = config.plan, tmp_path / "run"
    with opened(folder, config):
        pass
    ran, gaps = [], []
    result = restart.train_with_restarts(
        config, folder, on_step=ran.append, on_restart=lambda step, gap_s: gaps.append(gap_s)
    )
    windows = zip(plan.first_step.tolist(), plan.step_count.tolist(), strict=True)
    assert ran == [step for first, count in windows for step in range(first + 1, first + count + 1)]
    assert len(ran) == steps + plan.lost_count.sum() > steps
    assert gaps == (plan.gap_ns[1:] / 1e9).tolist()
    assert bits(result) == bits(train(config))
    if method == "strong":
        assert bits(result) == bits(train(Config(small, FORECAST, "uninterrupted", **pace)))


A_MINUTE_EARLY = """
    import os, signal, sys, time
    from pathlib import Path

    import torch
    from transformers import TrainerCallback

    sys.path.insert(0, sys.argv[2])
    import test_hf
    from orbittrace_data import Trace
    from orbittrace_data.trainers.clocks import RealClock
    from orbittrace_data.trainers.config import Config
    from orbittrace_data.trainers.hf import AvailabilityCallback, newest_checkpoint
    from orbittrace_data.trainers.loop import train

    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    forecast = Trace("forecast", 3_600_000, [[400_000, 3_600_000]])
    clock = RealClock(forecast, 10**9, 0, 0, time.time())

    def power_goes(step, at):
        if step == at:
            assert clock.gap_before(step) is None and clock.wall_ns() < 340 * 10**9  # a minute early
            os.kill(os.getpid(), signal.SIGKILL)

    def killed(work):
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL

    def loop(at):
        config = Config("small_task_of_a_forecast:make", forecast, steps=40, step_s=1, save_every=6)
        return train(config, folder / "loop", clock=clock, on_step=lambda step: power_goes(step, at))

    class PowerGoes(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            power_goes(state.global_step, 8)

    def trainer(*more):
        callback = AvailabilityCallback(test_hf.plan_of(test_hf.CONTROL), clock=clock)
        made = test_hf.trainer(
            folder / "hf", test_hf.CONTROL, callback=callback, save_strategy="steps", save_steps=3
        )
        for one in more:
            made.add_callback(one())
        newest = newest_checkpoint(folder / "hf")
        made.train(resume_from_checkpoint=newest)
        return newest, test_hf.bits(made)

    killed(lambda: loop(20))
    resumed = loop(-1)
    whole = train(Config("small_task_of_a_forecast:make", forecast, "uninterrupted", steps=40, step_s=1))
    assert resumed.resumed_from == 18, resumed.resumed_from
    assert resumed.state_sha256 == whole.state_sha256

    killed(lambda: trainer(PowerGoes))
    newest, bits = trainer()
    assert newest.endswith("checkpoint-6"), newest
    assert bits == test_hf.bits(test_hf.run(folder / "whole", test_hf.CONTROL))
    print("equal")
"""


def test_real_time_survives_a_gap_a_minute_early(small, tmp_path):
    """The power goes with SIGKILL more than a minute before the forecast gap; the loop and the Trainer resume."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(A_MINUTE_EARLY))
    command = [sys.executable, str(script), str(tmp_path / "runs"), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal")


def test_train_takes_what_happened_as_a_short_text(small, tmp_path, capsys):
    options = "--steps 20 --step-s 600 --save-s 10 --save-every 3 --trace duty:60m/35m"
    what_happens = ["--actual", "duty:60m/35m~300s#25"]
    command = ["train", "--task", small, *options.split(), *what_happens, "--out", str(tmp_path)]
    assert orbittrace(command) == 0
    assert "lost and run again" in capsys.readouterr().err
