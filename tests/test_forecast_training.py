"""Training under forecasts that miss: lost steps run again, and no bit differs."""

import os
import subprocess
import sys
import textwrap
import time
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
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(modules)]))
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
    ("method", "steps", "save_every"),
    [
        ("strong", 8, 2),  # a step is lost behind the last save
        pytest.param("strong", 5, 0, marks=pytest.mark.slow),  # all is lost: nothing was saved
        pytest.param("aat", 8, 4, marks=pytest.mark.slow),  # both
    ],
)
def test_lost_steps_run_again_after_real_kills(small, tmp_path, method, steps, save_every):
    pace = {"steps": steps, "step_s": 560}
    config = Config(small, FORECAST, method, save_s=30, save_every=save_every, actual=OUTAGE, **pace)
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


def test_real_time_survives_a_gap_a_minute_early(small, tmp_path):
    """The power goes at once, a minute before the forecast gap; the rest is trained after it."""
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal, sys, time
        from pathlib import Path
        from orbittrace_data import Trace
        from orbittrace_data.trainers.clocks import RealClock
        from orbittrace_data.trainers.config import Config
        from orbittrace_data.trainers.loop import train

        folder, origin, power_goes_at = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
        forecast = Trace("forecast", 3_600_000, [[130_000, 3_600_000]])
        config = Config("small_task_of_a_forecast:make", forecast, steps=40, step_s=0.01, save_every=6)

        def on_step(step):
            if step == power_goes_at:
                left_s = origin + 130 - time.time()
                assert left_s > 60, left_s
                os.kill(os.getpid(), signal.SIGKILL)

        clock = RealClock(forecast, 10_000_000, 0, 0, origin)
        result = train(config, folder, clock=clock, on_step=on_step)
        print(result.resumed_from, result.state_sha256)
        """)
    )
    arguments = [sys.executable, str(script), str(tmp_path / "run"), repr(time.time())]
    killed = subprocess.run([*arguments, "20"], capture_output=True, text=True, timeout=120)
    assert killed.returncode == -9, killed.stderr
    done = subprocess.run([*arguments, "-1"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    resumed_from, state = done.stdout.split()
    assert resumed_from == "18"  # two steps were lost and ran again
    whole = train(Config(small, FORECAST, "uninterrupted", steps=40, step_s=0.01))
    assert state == whole.state_sha256


def test_train_takes_what_happened_as_a_short_text(small, tmp_path, capsys):
    options = "--steps 20 --step-s 600 --save-s 10 --save-every 3 --trace duty:60m/35m"
    what_happens = ["--actual", "duty:60m/35m~300s#25"]
    command = ["train", "--task", small, *options.split(), *what_happens, "--out", str(tmp_path)]
    assert orbittrace(command) == 0
    assert "lost and run again" in capsys.readouterr().err
