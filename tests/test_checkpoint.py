import json
import pickle
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from orbittrace_data import Trace
from orbittrace_data.trainers import checkpoint
from orbittrace_data.trainers.checkpoint import CheckpointError, CheckpointWarning, ResumeError, State
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.loop import train
from orbittrace_data.trainers.methods import STRONG, Regime
from orbittrace_data.trainers.order import sample_ids
from orbittrace_data.trainers.schedule import warmup_cosine
from orbittrace_data.trainers.tasks import Task
from orbittrace_data.trainers.tensor_files import checksum_of

legacy = np.random.mtrand  # NumPy's global generator
ORBIT = Trace("orbit", 92 * 60_000, [[57 * 60_000, 92 * 60_000]])
SAMPLES, BATCH = 10, 4
POINTS = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(5))
CLASSES = torch.arange(SAMPLES) % 2


def small_batch(seed, step):
    ids = torch.from_numpy(sample_ids(seed, step, BATCH, SAMPLES))
    return POINTS[ids], CLASSES[ids]


def small_loss(model, batch):
    noise = random.random() + float(legacy.rand())  # a model may use the global generators
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1]) * (1 + 0.01 * noise)


SMALL = Task(
    "small",
    lambda: torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)
    ),
    small_batch,
    small_loss,
    lambda model: {"validation_loss": float(small_loss(model, (POINTS, CLASSES)))},
    steps=24,
    step_s=600,
    lr=1e-2,
    warmup=0.25,
)


def small(**options):
    return Config(**{"task": SMALL, "trace": ORBIT, **options})


def generators():
    return {f"0.{name}": state for name, state in checkpoint.rng_state().items()}


def stopping_at(*steps):
    """Return (on_step, should_stop) that stop a run at these steps."""
    done = [0]
    return {
        "on_step": lambda step: done.__setitem__(0, step),
        "should_stop": lambda: done[0] in steps,
    }


def restarted(config, folder, at):
    for step in at:
        assert train(config, folder, **stopping_at(step)).steps == step
    return train(config, folder)


def same_run(a, b):
    assert a.log.equals(b.log)
    assert a.state_sha256 == b.state_sha256
    assert a.measures == b.measures


# Resumes change nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [(1,), (6,), (5, 6, 7), (24,), tuple(range(1, 24, 2))])
def test_losses_learning_rates_and_all_state_are_the_same_however_often_it_restarts(tmp_path, at):
    whole = train(small())
    again = restarted(small(), tmp_path, at)
    same_run(whole, again)
    assert again.log["step"].to_pylist() == list(range(24))
    optimizer = checkpoint.newest(tmp_path / "checkpoints")[1].optimizer
    assert {float(state["step"]) for state in optimizer["state"].values()} == {24.0}


def test_the_gradient_scaler_is_the_same_after_a_resume(tmp_path):
    # The loss overflows float16 at the first scales, so the scale falls; that must outlive a restart.
    task = replace(SMALL, loss=lambda model, batch: small_loss(model, batch) * 64)
    config = small(task=task, precision="fp16", threads=1)
    train(config, tmp_path / "whole")
    restarted(config, tmp_path / "cut", (2, 9))
    scalers = [checkpoint.newest(tmp_path / name / "checkpoints")[1].scaler for name in ("whole", "cut")]
    assert scalers[0] == scalers[1]
    assert scalers[0]["scale"] < 65536
    logs = [train(config, tmp_path / name).log for name in ("whole", "cut")]
    assert repr(logs[0].to_pylist()) == repr(logs[1].to_pylist())  # NaN stands where a step was skipped
    assert "nan" in repr(logs[0].to_pylist()[0])


def test_the_schedule_stands_where_the_active_steps_stand(tmp_path):
    log = restarted(small(), tmp_path, (2, 5, 6, 13)).log
    expected = [SMALL.lr * warmup_cosine(k, 24, 6, SMALL.final) for k in range(24)]
    assert log["lr"].to_pylist() == expected
    assert np.argmax(expected) == 5  # LR warm-up happens once
    state = checkpoint.newest(tmp_path / "checkpoints")[1]
    assert state.schedule["lr"] == [expected[-1]] == [g["lr"] for g in state.optimizer["param_groups"]]


@pytest.mark.parametrize("at", [(5,), (3, 10), (1, 2, 5, 15)])
def test_every_data_pass_sees_the_same_samples_and_none_is_read_twice(tmp_path, at):
    seen = []

    def batch(seed, step):
        seen.append((step, sample_ids(seed, step, BATCH, SAMPLES).tolist()))
        return small_batch(seed, step)

    config = small(task=replace(SMALL, batch=batch, steps=20))
    restarted(config, tmp_path, at)  # step 5 is exactly the end of the second data pass
    cut = seen.copy()
    seen.clear()
    train(config)
    assert cut == seen
    assert [step for step, _ in seen] == list(range(20))
    ids = [i for _, batch_ids in seen for i in batch_ids]
    for start in range(0, 80, SAMPLES):
        assert sorted(ids[start : start + SAMPLES]) == list(range(SAMPLES))


@pytest.mark.parametrize("method", ["weak", "aat", "strong-fresh-order", "weak+reconstruct+reenter"])
@pytest.mark.parametrize("persists", ["all", "m", "v", "nothing"])
def test_every_method_and_regime_resumes_bit_for_bit(tmp_path, method, persists):
    config = small(method=method, regime=Regime(persists))
    same_run(train(config), restarted(config, tmp_path, (3, 5, 6, 12)))


def test_checkpoints_against_other_failures_change_nothing(tmp_path):
    every = small(save_every=5)
    result = train(every, tmp_path, keep=99)
    same_run(train(small()), result)
    steps = [checkpoint.step_of(path) for path in checkpoint.checkpoints(tmp_path / "checkpoints")]
    assert {5, 10, 15, 20, 24} <= set(steps)


# What a checkpoint holds -----------------------------------------------------------------------------


def test_a_state_comes_back_bit_for_bit(tmp_path):
    torch.manual_seed(3)
    tied = torch.nn.Linear(4, 4, bias=False)
    model = torch.nn.ModuleDict({"a": tied, "b": torch.nn.Linear(4, 4), "c": torch.nn.BatchNorm1d(4)})
    model["b"].weight = tied.weight
    model.register_buffer("brain", torch.randn(3).to(torch.bfloat16))
    model.register_buffer("scattered", torch.randn(6, 4).t()[::2])
    model.register_buffer("nothing", torch.empty(0, 3))
    model.register_buffer("flag", torch.tensor([True, False]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.8, 0.9))
    model["b"](model["a"](torch.randn(2, 4))).sum().backward()
    optimizer.step()
    state = State(7, model.state_dict(), optimizer.state_dict(), {}, 0, rng=generators())
    draws = (random.random(), legacy.rand(3).tolist(), torch.rand(3).tolist())
    path = checkpoint.save(tmp_path, state)
    loaded = checkpoint.load(path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.model[name], tensor)
        assert loaded.model[name].dtype == tensor.dtype
    assert loaded.optimizer["param_groups"] == optimizer.state_dict()["param_groups"]
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            assert torch.equal(loaded.optimizer["state"][index][key], value)
    checkpoint.restore(path, loaded, model, optimizer)
    assert (random.random(), legacy.rand(3).tolist(), torch.rand(3).tolist()) == draws
    # tied weights are stored once, and any safetensors reader reads the file
    stored = load_file(path / "model.safetensors")
    assert "b.weight" not in stored
    assert torch.equal(stored["scattered"], model.scattered)


def test_nothing_is_pickled_or_unpickled(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for name in ("dumps", "dump", "loads", "load", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    restarted(small(), tmp_path, (7,))
    names = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {*checkpoint.FILES, "XXH128SUMS", "log.jsonl", "log.parquet"}
    facts = json.loads(next(tmp_path.rglob("state.json")).read_text())
    assert all(isinstance(word, int) for word in facts["rng"]["0.python"][1] + facts["rng"]["0.numpy"][1])


# Broken checkpoints ----------------------------------------------------------------------------------


def cut_run(folder):
    train(small(), folder, keep=9, **stopping_at(17))
    return checkpoint.checkpoints(folder / "checkpoints")


def flip(path, at=-3):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def forge_sums(path):
    lines = [f"{checksum_of(path / n)}  {n}\n" for n in checkpoint.FILES]
    (path / "XXH128SUMS").write_text("".join(lines))


@pytest.mark.parametrize("name", [*checkpoint.FILES, "XXH128SUMS"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "empty"])
def test_a_broken_newest_checkpoint_is_skipped_with_a_warning_and_the_run_is_the_same(tmp_path, name, damage):
    *_, newest = cut_run(tmp_path)
    file = newest / name
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-2])
    elif damage == "empty":
        file.write_bytes(b"")
    else:
        flip(file, 10)
    with pytest.raises(CheckpointError, match="broken"):
        checkpoint.load(newest)
    with pytest.warns(CheckpointWarning, match="an older checkpoint is tried"):
        result = train(small(), tmp_path)
    assert result.resumed_from < 17
    same_run(train(small()), result)


def test_a_run_of_which_no_checkpoint_is_whole_does_not_begin_anew_unasked(tmp_path):
    for path in cut_run(tmp_path):
        flip(path / "model.safetensors")
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(CheckpointError, match=r"none of the \d checkpoints in .* is whole: remove them"),
    ):
        train(small(), tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    same_run(train(small()), train(small(), tmp_path))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda facts: facts.pop("schedule"), "lacks schedule"),
        (lambda facts: facts.pop("rng"), "lacks rng"),
        (lambda facts: facts.pop("scaler"), "lacks scaler"),
        (lambda facts: facts.update(format=2), "another format"),
        (lambda facts: facts.update(step=16), "another format or step"),
        (lambda facts: facts["rng"].pop("0.python"), "generator state is incomplete: 'python'"),
        (lambda facts: facts["rng"]["0.numpy"][1].pop(), "generator state is incomplete"),
        (lambda facts: facts["optimizer"]["state"].pop("0"), "does not list"),
        (lambda facts: facts["optimizer"]["state"]["0"].pop("exp_avg"), "does not list"),
        (
            lambda facts: facts["optimizer"]["state"]["0"].update(more="tensor"),
            "lacks the optimizer's 0.more",
        ),
        (lambda facts: facts["optimizer"]["param_groups"][0]["params"].pop(), "5 parameters"),
    ],
)
def test_incomplete_state_raises_even_where_the_sums_agree(tmp_path, spoil, message):
    *_, newest = cut_run(tmp_path)
    facts = json.loads((newest / "state.json").read_text())
    spoil(facts)
    (newest / "state.json").write_text(json.dumps(facts))
    forge_sums(newest)
    model = SMALL.model()
    with pytest.raises(CheckpointError, match=message):
        checkpoint.restore(newest, checkpoint.load(newest), model, SMALL.optimizer(model.parameters(), 0.1))


@pytest.mark.parametrize("name", ["model", "optimizer", "rng"])
def test_tensors_of_another_run_raise_even_where_the_sums_agree(tmp_path, name):
    *_, newest = cut_run(tmp_path)
    checkpoint.write_safetensors(newest / f"{name}.safetensors", {"0.exp_avg": torch.zeros(2)})
    forge_sums(newest)
    model = SMALL.model()
    with pytest.raises(CheckpointError):
        checkpoint.restore(newest, checkpoint.load(newest), model, SMALL.optimizer(model.parameters(), 0.1))


def test_a_log_that_was_cut_is_refused(tmp_path):
    cut_run(tmp_path)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:9]))
    with pytest.raises(CheckpointError, match="holds 9 rows, the checkpoint continues after row 17"):
        train(small(), tmp_path)


def test_rows_after_the_checkpoint_are_dropped(tmp_path):
    cut_run(tmp_path)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 17, "loss": 0.0}\n{"step": 18, "lo')
    same_run(train(small()), train(small(), tmp_path))


# Rotation --------------------------------------------------------------------------------------------


def test_rotation_goes_by_step_and_never_deletes_the_last_whole_one(tmp_path):
    model = SMALL.model()
    optimizer = SMALL.optimizer(model.parameters(), 0.1)

    def save(step, keep=2):
        state = State(step, model.state_dict(), optimizer.state_dict(), {}, 0, rng=generators())
        return checkpoint.save(tmp_path, state, keep)

    def steps():
        return [checkpoint.step_of(path) for path in checkpoint.checkpoints(tmp_path)]

    for step in (8, 9, 10, 100):
        path = save(step)
    assert steps() == [10, 100]
    flip(path / "model.safetensors")
    save(11, keep=1)  # the run went back to 10 and goes on: the broken 100 must not push 11 out
    assert steps() == [11, 100]
    with pytest.warns(CheckpointWarning, match=r"step-0000000100 is broken: model\.safetensors"):
        assert checkpoint.newest(tmp_path)[1].step == 11
    save(100, keep=1)
    assert steps() == [100]
    assert checkpoint.newest(tmp_path)[1].step == 100
    leftover = tmp_path / ".step-0000000101.123.orbittrace-building"
    leftover.mkdir()
    save(102)
    assert not leftover.exists()
    with pytest.raises(ValueError, match="keep must be at least 1"):
        save(103, keep=0)


def test_a_state_that_cannot_be_saved_leaves_nothing_behind(tmp_path):
    optimizer = {"state": {}, "param_groups": []}
    for model, schedule, message in (
        ({"w": torch.zeros(2, dtype=torch.complex64)}, {}, "w has the dtype torch.complex64"),
        ({"w": torch.zeros(2)}, {"lr": [float("nan")]}, "does not fit into JSON"),
    ):
        with pytest.raises(CheckpointError, match=message):
            checkpoint.save(tmp_path, State(3, model, optimizer, schedule, 0))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_has_no_number_is_no_checkpoint(tmp_path):
    for name in ("step-²", "step-٣", "step-", "step-1\n"):
        (tmp_path / name).mkdir()
    assert checkpoint.checkpoints(tmp_path) == []


def test_an_empty_folder_holds_no_checkpoint(tmp_path):
    assert checkpoint.newest(tmp_path) is None
    assert checkpoint.newest(tmp_path / "absent") is None


# Other runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("horizon", {"steps": 48}),
        ("plan", {"save_s": 120.0}),
        ("plan", {"trace": Trace("other", 92 * 60_000, [[50 * 60_000, 92 * 60_000]])}),
        ("seed", {"seed": 1, "order_seed": 0}),
        ("order_seed", {"order_seed": 1}),
        ("threads", {"threads": 2}),
        ("precision", {"precision": "bf16"}),
        ("lr", {"lr": 0.5}),
        ("warmup", {"warmup": 0.1}),
        ("method.name", {"method": "aat"}),
        ("method.reenter_steps", {"method": replace(STRONG, reenter_steps=2)}),
        ("persists", {"regime": Regime("nothing")}),
        ("accumulate", {"accumulate": 2}),
        ("task", {"task": replace(SMALL, name="another")}),
        ("data_sha256", {"task": replace(SMALL, data_digest="ab")}),
        ("model", {"task": replace(SMALL, model=lambda: torch.nn.Sequential(torch.nn.Linear(6, 2)))}),
    ],
)
def test_a_resume_of_another_run_is_refused_and_names_the_field(tmp_path, field, options):
    train(small(), tmp_path, **stopping_at(3))
    with pytest.raises(ResumeError, match=rf"another run: {field} is .* there and .* now: .*--rebase"):
        train(small(**options), tmp_path)


def test_rebase_insists(tmp_path):
    train(small(), tmp_path, **stopping_at(3))
    result = train(small(steps=30), tmp_path, rebase=True)
    assert (result.resumed_from, result.steps) == (3, 30)


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = train(small(), tmp_path)
    shutil.rmtree(tmp_path / "checkpoints" / "step-0000000020", ignore_errors=True)
    second = train(small(), tmp_path)
    assert second.resumed_from == 24
    same_run(first, second)
