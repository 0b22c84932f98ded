import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from orbittrace_data import Trace, periodic_pause_trace
from orbittrace_data.trainers.config import Config, ConfigError
from orbittrace_data.trainers.loop import recalibrate, train
from orbittrace_data.trainers.methods import STRONG, WEAK, Method, Regime, weak_with
from orbittrace_data.trainers.schedule import reentry, warmup_cosine
from orbittrace_data.trainers.tasks import Task, task_named

ORBIT = Trace("orbit", 92 * 60_000, [[57 * 60_000, 92 * 60_000]])
CONTROL = Trace("control", 92 * 60_000, [])
TASKS = ["gpt2-tiny", "resnet-mnist"]


@cache
def run(task="resnet-mnist", method="strong", trace=ORBIT, **options):
    return train(Config(task, trace, method, **{"steps": 12, "step_s": 900, **options}))


def bits(result):
    return result.state_sha256, result.log["loss"].to_pylist(), result.log["lr"].to_pylist()


@pytest.mark.parametrize("task", TASKS)
def test_strong_is_uninterrupted_bit_for_bit(task, tmp_path):
    whole = run(task, "uninterrupted")
    strong = run(task)
    assert strong.config.plan.window_count == 4
    assert bits(strong) == bits(whole)
    assert strong.measures == whole.measures
    config = Config(task, ORBIT, "strong", steps=12, step_s=900)
    assert bits(train(config, tmp_path)) == bits(whole)


@pytest.mark.parametrize("method", ["strong", "weak", "weak-wall-horizon", "aat", "strong-fresh-order"])
def test_a_trace_without_gaps_is_no_trace(method):
    assert bits(run(method=method, trace=CONTROL)) == bits(run(method="uninterrupted"))


def test_all_pillars_off_is_weak_and_the_clock_alone_is_strong():
    assert bits(run(method=weak_with(set()))) == bits(run(method=WEAK))
    assert bits(run(method=weak_with({"clock"}))) == bits(run(method=STRONG))
    assert bits(run(method="weak+clock+reconstruct+reenter")) == bits(run(method="aat"))


def test_every_pillar_does_something():
    methods = ["weak", "strong", "aat", "weak+reconstruct", "weak+reenter", "weak+clock+reconstruct"]
    assert len({run(method=method).state_sha256 for method in methods}) == len(methods)
    assert len({run(regime=Regime(p)).state_sha256 for p in ("all", "v", "nothing")}) == 2  # SGD has no v
    states = {run("gpt2-tiny", steps=5, regime=Regime(p)).state_sha256 for p in ("all", "m", "v", "nothing")}
    assert len(states) == 4


def test_the_learning_rate_reads_the_clock_that_the_method_says():
    task = task_named("resnet-mnist")
    plan = Config("resnet-mnist", ORBIT, steps=12, step_s=900).plan
    wall = plan.wall_step(np.arange(12)).tolist()
    assert wall == [0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20]

    def rates(index, horizon):
        return [task.lr * warmup_cosine(k, horizon, 1, task.final) for k in index]

    assert run(method="strong").log["lr"].to_pylist() == rates(range(12), 12)
    assert run(method="weak").log["lr"].to_pylist() == rates(wall, 12)
    assert run(method="weak-wall-horizon").log["lr"].to_pylist() == rates(wall, 21)
    ramped = run(method="aat")
    expected = rates(range(12), 12)
    for first in (3, 6, 9):
        for i in range(3):
            length = math.ceil(20 * (1 - 0.9**2))  # Delta 2, momentum 0.9
            expected[first + i] *= reentry(i, length)
    np.testing.assert_allclose(ramped.log["lr"], expected, rtol=1e-15)


def test_the_log_holds_both_clocks_windows_and_gaps():
    log = run(evaluate_every=5).log
    assert log["step"].to_pylist() == list(range(12))
    assert log["window"].to_pylist() == [k // 3 for k in range(12)]
    assert log["delta"].to_pylist() == [0] * 3 + [2] * 9
    wall = np.array(log["wall_ns"]) / 1e9
    assert wall.tolist() == [k // 3 * 92 * 60 + k % 3 * 900 for k in range(12)]
    assert (np.array(log["active_ns"]) / 1e9).tolist() == [k // 3 * 57 * 60 + k % 3 * 900 for k in range(12)]
    assert [k for k, a in enumerate(log["accuracy"].to_pylist()) if a is not None] == [4, 9]
    assert all(norm > 0 for norm in log["grad_norm"].to_pylist())


def test_evaluations_along_the_way_change_no_bit():
    assert bits(run("gpt2-tiny", steps=6, evaluate_every=1)) == bits(run("gpt2-tiny", steps=6))


def test_a_fresh_order_sees_other_samples_only_after_the_first_gap():
    fresh, strong = run(method="strong-fresh-order"), run()
    assert fresh.log["loss"].to_pylist()[:3] == strong.log["loss"].to_pylist()[:3]
    assert fresh.log["loss"].to_pylist()[3] != strong.log["loss"].to_pylist()[3]


def test_the_order_has_a_seed_of_its_own():
    base, order, both = run(steps=3), run(steps=3, order_seed=5), run(steps=3, seed=5)
    assert base.log["loss"][0] != order.log["loss"][0]
    assert len({base.state_sha256, order.state_sha256, both.state_sha256}) == 3
    assert bits(run(steps=3, order_seed=0)) == bits(base)


def test_drift_comes_at_the_same_step_for_an_uninterrupted_run():
    drift = Regime(drift_at=(6,))
    assert bits(run(regime=drift)) == bits(run(method="uninterrupted", regime=drift))
    plain, drifted = run(), run(regime=drift)
    assert drifted.log["loss"].to_pylist()[:6] == plain.log["loss"].to_pylist()[:6]
    assert drifted.log["loss"].to_pylist()[6] != plain.log["loss"].to_pylist()[6]
    assert drifted.measures != plain.measures


def test_accumulated_gradients_are_those_of_one_large_batch():
    points = torch.randn(64, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def task(size):
        return Task(
            "sum",
            lambda: torch.nn.Linear(5, 1).double(),
            lambda seed, step: points[step * size % 64 : step * size % 64 + size],
            lambda model, x: model(x).square().mean(),
            lambda model: {},
            steps=8,
            step_s=900,
        )

    small, large = train(Config(task(4), ORBIT, accumulate=2)), train(Config(task(8), ORBIT))
    np.testing.assert_allclose(small.log["loss"], large.log["loss"], rtol=1e-9)
    np.testing.assert_allclose(small.log["grad_norm"], large.log["grad_norm"], rtol=1e-9)


def test_bf16_computes_in_bf16_and_keeps_the_laws():
    half, whole = run(precision="bf16"), run(precision="bf16", method="uninterrupted")
    assert bits(half) == bits(whole)
    assert half.state_sha256 != run().state_sha256


def test_a_run_leaves_threads_and_deterministic_mode_as_they_were():
    torch.set_num_threads(2)
    before = torch.are_deterministic_algorithms_enabled()
    run(steps=1, seed=9)
    assert torch.get_num_threads() == 2
    assert torch.are_deterministic_algorithms_enabled() == before
    torch.set_num_threads(1)


def test_ones_own_method_is_called_at_each_gap():
    seen = []

    def deed(gap, model, optimizer):
        seen.append((gap.step, gap.delta, gap.duration_s, type(optimizer).__name__, model.training))

    def ramp(since, delta):
        return 1 / (2 + since + delta)

    log = run(method=Method("own", after_gap=deed, lr_factor=ramp)).log
    plain = run().log["lr"].to_pylist()
    factors = [1.0] * 3 + [1 / (4 + k % 3) for k in range(9)]
    np.testing.assert_allclose(log["lr"], np.array(plain) * factors, rtol=1e-15)
    assert seen == [(k, 2, 2100.0, "SGD", True) for k in (3, 6, 9)]


def test_frequent_short_pauses():
    pauses = periodic_pause_trace(every_s=2, pause_s=1)
    strong = run(trace=pauses, step_s=1, method="strong")
    assert strong.config.plan.delta.tolist() == [0, 1, 1, 1, 1, 1]
    assert bits(strong) == bits(run(step_s=1, method="uninterrupted"))


def test_recalibration_takes_the_statistics_of_the_next_batches():
    task = task_named("resnet-mnist")
    torch.manual_seed(0)
    model = task.model().train()
    weights = [p.detach().clone() for p in model.parameters()]
    recalibrate(model, task, 0, 7, 1)
    first = model[0](task.batch(0, 7)[0])
    torch.testing.assert_close(model[1].running_mean, first.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    assert model[1].momentum == 0.1
    assert model.training
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    changed = replace(STRONG, recalibrate_batches=2)
    # statistics serve the evaluation only: the training itself is the same
    assert run(method=changed).log["loss"].to_pylist() == run().log["loss"].to_pylist()


def test_a_config_goes_through_json_and_its_digest_says_what_decides(tmp_path):
    config = Config("resnet-mnist", ORBIT, "aat", Regime("nothing", (3,)), seed=4, steps=12, step_s=900)
    again = Config.from_json(config.to_json())
    assert again.digest == config.digest
    assert again.plan == config.plan
    for other in (
        replace(config, seed=5),
        replace(config, steps=13),
        replace(config, trace=CONTROL),
        replace(config, regime=Regime()),
        replace(config, method="strong"),
        replace(config, threads=2),
        replace(config, reenter_steps=7),
    ):
        assert other.digest != config.digest
    assert replace(config, lr=0.2, order_seed=4).digest == config.digest  # what it is anyway
    for given in (
        replace(config, task=replace(config.resolved_task), regime=Regime()),
        replace(config, method=Method("mine")),
    ):
        with pytest.raises(ConfigError, match="given as an object"):
            given.to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fp8"}, "fp32, bf16 or fp16"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"accumulate": 0}, "accumulate must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_a_config_that_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Config("resnet-mnist", ORBIT, **options)


def test_weak_is_worse_than_strong_by_more_than_the_noise_of_the_data_order():
    def loss(method, order):
        config = Config("gpt2-tiny", ORBIT, method, order_seed=order, steps=100, step_s=240)
        return train(config).measures["validation_loss"]

    noise = np.std([loss("uninterrupted", order) for order in range(3)], ddof=1)
    assert loss("weak", 0) - loss("strong", 0) > 2 * noise
