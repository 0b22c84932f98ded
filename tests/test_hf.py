import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from orbittrace_data import Trace
from orbittrace_data.trainers.checkpoint import CheckpointError, CheckpointWarning, ResumeError
from orbittrace_data.trainers.clocks import RealClock
from orbittrace_data.trainers.determinism import tensors_sha256
from orbittrace_data.trainers.hf import (
    AvailabilityCallback,
    EffectiveTimeLR,
    TrainerError,
    check_sealed,
    newest_checkpoint,
)
from orbittrace_data.trainers.methods import Method
from orbittrace_data.trainers.schedule import warmup_cosine

ROOT = Path(__file__).parent.parent
TRACE = Trace("t", 10_000, [[4_000, 7_000]])
CONTROL = Trace("control", 10_000, [])
STEPS = 14


def plan_of(trace):
    return trace.plan(STEPS, step_s=1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))

    def forward(self, x, labels):
        scores = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def rows():
    points = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))
    return [{"x": x, "labels": int(x.sum() > 0)} for x in points]


def trainer(folder, trace, method="strong", persists="all", callback=None, **options):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = EffectiveTimeLR(optimizer, plan_of(trace), method)
    arguments = {
        "output_dir": str(folder),
        "max_steps": STEPS,
        "per_device_train_batch_size": 4,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 3,
    }
    callback = callback or AvailabilityCallback(plan_of(trace), method, persists=persists)
    return Trainer(
        model=model,
        args=TrainingArguments(**(arguments | options)),
        train_dataset=rows(),
        optimizers=(optimizer, schedule),
        callbacks=[callback],
    )


def bits(trained):
    state = trained.optimizer.state_dict()["state"]
    losses = [entry["loss"] for entry in trained.state.log_history if "loss" in entry]
    return tensors_sha256({"model": trained.model.state_dict(), "optimizer": state}), losses


def run(folder, trace, *arguments, **options):
    trained = trainer(folder, trace, *arguments, **options)
    trained.train(resume_from_checkpoint=newest_checkpoint(folder))
    return trained


class PowerOffError(Exception):
    pass


def until_gap(folder, trace, gap, method="strong", persists="all"):
    """Train until the power goes at the gap before a step; what is not on disk is lost."""

    def at_gap(reached):
        if reached.step == gap:
            raise PowerOffError

    callback = AvailabilityCallback(plan_of(trace), method, persists=persists, at_gap=at_gap)
    with pytest.raises(PowerOffError):
        run(folder, trace, method, persists, callback=callback)


def test_through_gaps_in_memory_and_from_disk_it_is_the_run_without_gaps(tmp_path):
    whole = bits(run(tmp_path / "whole", CONTROL))
    assert bits(run(tmp_path / "memory", TRACE)) == whole
    assert plan_of(TRACE).first_step.tolist() == [0, 4, 11]  # amid and right after data passes of 5 steps
    until_gap(tmp_path / "disk", TRACE, 4)
    until_gap(tmp_path / "disk", TRACE, 11)
    assert bits(run(tmp_path / "disk", TRACE)) == whole


def test_a_resume_at_the_end_of_a_data_pass_is_exact(tmp_path):
    trace = Trace("t", 10_000, [[5_000, 10_000]])
    whole = bits(run(tmp_path / "whole", CONTROL))
    until_gap(tmp_path / "cut", trace, 5)
    until_gap(tmp_path / "cut", trace, 10)
    assert bits(run(tmp_path / "cut", trace)) == whole


@pytest.mark.parametrize(
    ("method", "persists"),
    [("weak", "all"), ("aat", "m"), ("strong", "nothing")],
)
def test_methods_and_regimes_do_the_same_in_memory_and_from_disk(tmp_path, method, persists):
    memory = run(tmp_path / "memory", TRACE, method, persists)
    until_gap(tmp_path / "disk", TRACE, 4, method, persists)
    disk = run(tmp_path / "disk", TRACE, method, persists)
    assert bits(memory) == bits(disk)
    assert bits(memory)[0] != bits(run(tmp_path / "whole", CONTROL))[0]


class Rates(TrainerCallback):
    """Notes the learning rate that each step is about to take."""

    def __init__(self):
        self.seen = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.seen.append(kwargs["optimizer"].param_groups[0]["lr"])


def test_the_learning_rate_reads_the_clock_that_the_method_says(tmp_path):
    def rates(method):
        trained, noted = trainer(tmp_path / method, TRACE, method), Rates()
        trained.add_callback(noted)
        trained.train()
        return noted.seen

    wall = plan_of(TRACE).wall_step(np.arange(STEPS)).tolist()
    assert wall == [0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 17, 18, 19]
    assert rates("strong") == [0.05 * warmup_cosine(k, STEPS, 1, 0.0) for k in range(STEPS)]
    assert rates("weak") == [0.05 * warmup_cosine(k, STEPS, 1, 0.0) for k in wall]
    assert rates("weak-wall-horizon") == [0.05 * warmup_cosine(k, 20, 1, 0.0) for k in wall]


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors"])
def test_an_incomplete_checkpoint_is_skipped_and_refused(tmp_path, name):
    until_gap(tmp_path, TRACE, 11)
    newest = tmp_path / "checkpoint-11"
    assert newest_checkpoint(tmp_path) == str(newest)
    (newest / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing or was changed"):
        check_sealed(newest)
    with pytest.warns(CheckpointWarning, match="an older one is tried"):
        assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint-4")
    if name != "model.safetensors":  # without weights the Trainer itself objects
        with pytest.raises(CheckpointError, match="is not whole"):
            trainer(tmp_path, TRACE).train(resume_from_checkpoint=str(newest))
    shutil.rmtree(tmp_path / "checkpoint-4")
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(CheckpointError, match="1 checkpoints, and none is whole"),
    ):
        newest_checkpoint(tmp_path)


def test_a_half_written_checkpoint_was_never_sealed(tmp_path):
    until_gap(tmp_path, TRACE, 4)
    shutil.copytree(tmp_path / "checkpoint-4", tmp_path / "checkpoint-9")
    (tmp_path / "checkpoint-9" / "XXH128SUMS").unlink()
    with pytest.warns(CheckpointWarning, match="never sealed"):
        assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint-4")
    (tmp_path / "checkpoint-²").mkdir()  # a digit to Python, and no number
    with pytest.warns(CheckpointWarning, match="never sealed"):
        assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint-4")
    assert newest_checkpoint(tmp_path / "absent") is None


def test_another_run_is_refused(tmp_path):
    until_gap(tmp_path, TRACE, 4)
    newest = newest_checkpoint(tmp_path)
    other = Trace("other", 10_000, [[4_000, 8_000]])
    with pytest.raises(ResumeError, match="plan is") as caught:
        trainer(tmp_path, other).train(resume_from_checkpoint=newest)
    assert "--rebase" not in str(caught.value)  # a Trainer has no such option
    with pytest.raises(ResumeError, match="method is"):
        trainer(tmp_path, TRACE, "weak").train(resume_from_checkpoint=newest)
    with pytest.raises(ResumeError, match="persists is"):
        trainer(tmp_path, TRACE, persists="nothing").train(resume_from_checkpoint=newest)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_steps", 15, "the plan has 14 steps and the Trainer 15"),
        ("save_only_model", True, "with save_only_model=True"),
        ("ignore_data_skip", True, "with ignore_data_skip=True"),
        ("save_strategy", "best", 'save_strategy="best" .* set it to "steps", "epoch" or "no"'),
        ("enable_jit_checkpoint", True, "with enable_jit_checkpoint=True"),  # not every version has it
    ],
)
def test_a_trainer_that_could_not_be_resumed_is_refused(tmp_path, name, value, message):
    trained = trainer(tmp_path, TRACE)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        setattr(trained.args, name, value)
        with pytest.raises(TrainerError, match=message):
            trained.train()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_finished_run_is_not_trained_one_step_too_far(tmp_path):
    run(tmp_path, TRACE, save_strategy="steps", save_steps=STEPS)
    with pytest.raises(TrainerError, match=r"checkpoint-14 is the end of the run: its 14 steps are done"):
        run(tmp_path, TRACE)


def test_methods_that_a_trainer_cannot_follow_are_refused():
    clock = RealClock(TRACE, 10**9, 0, 0, 0.0, lambda: 1.0, lambda s: None)
    for method, real in [("strong-fresh-order", None), ("weak", clock), ("aat", clock)]:
        with pytest.raises(TrainerError, match=method):
            AvailabilityCallback(plan_of(TRACE), method, clock=real)
    with pytest.raises(TrainerError, match="needs the data by position"):
        AvailabilityCallback(plan_of(TRACE), Method("own", recalibrate_batches=2))


def test_in_real_time_it_saves_before_each_gap_and_waits_it_out(tmp_path):
    now = [1000.0]

    def tick():
        now[0] += 0.125  # every look at the clock takes its time
        return now[0]

    clock = RealClock(
        TRACE, 10**9 // 2, 0, 10**9 // 2, 1000.0, tick, lambda s: now.__setitem__(0, now[0] + s)
    )
    gaps = []
    callback = AvailabilityCallback(plan_of(TRACE), clock=clock, at_gap=gaps.append)
    real = run(tmp_path / "real", TRACE, callback=callback)
    assert bits(real) == bits(run(tmp_path / "whole", CONTROL))
    assert [gap.duration_s for gap in gaps] == [3.0] * len(gaps)
    assert len(gaps) >= 1
    for gap in gaps:
        left = json.loads((tmp_path / "real" / f"checkpoint-{gap.step}" / "availability.json").read_text())
        assert left["clock"]["left_ns"] % 10**10 < 4 * 10**9  # saved before the power went


SCRIPT = """
    import os, signal, sys
    import torch
    from transformers import Trainer, TrainingArguments
    sys.path.insert(0, sys.argv[2])
    from test_hf import TRACE, CONTROL, AvailabilityCallback, bits, newest_checkpoint, plan_of, run

    torch.set_num_threads(1)
    kill = AvailabilityCallback(plan_of(TRACE), at_gap=lambda gap: os.kill(os.getpid(), signal.SIGKILL))
    ended = run(sys.argv[1] + "/killed", TRACE, callback=kill)
    assert bits(ended) == bits(run(sys.argv[1] + "/whole", CONTROL))
    print("equal")
"""


def test_processes_that_are_killed_at_each_gap_give_the_same_bits(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])}
    command = [sys.executable, str(script), str(tmp_path), str(Path(__file__).parent)]
    for last in (False, False, True):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250)
        if last:
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip().endswith("equal")
        else:
            assert done.returncode == -signal.SIGKILL, done.stderr
