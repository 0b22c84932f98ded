import importlib
import json
import re
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from orbittrace_data import Trace
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.methods import (
    AAT,
    METHODS,
    STRONG,
    WEAK,
    Method,
    MethodError,
    Regime,
    method_named,
    weak_with,
)
from orbittrace_data.trainers.schedule import reentry, reentry_length, warmup_cosine
from orbittrace_data.trainers.tasks import task_named


def test_the_factorial_has_weak_strong_and_aat_at_its_corners():
    assert replace(weak_with(set()), name="weak") == WEAK
    assert replace(weak_with({"clock"}), name="strong") == STRONG
    assert replace(method_named("weak+clock+reconstruct+reenter"), name="aat") == AAT
    assert method_named("weak+reenter+clock") == method_named("weak+clock+reenter")


@pytest.mark.parametrize("name", METHODS)
def test_names_and_what_decides_a_run_go_through_json(name):
    method = method_named(name)
    assert method is METHODS[name]
    assert json.loads(json.dumps(method.to_json())) == method.to_json()


def test_ones_own_method(tmp_path, monkeypatch):
    (tmp_path / "own_method_for_test.py").write_text(
        "from orbittrace_data.trainers.methods import Method\n"
        "def deed(gap, model, optimizer):\n    pass\n"
        "def make():\n    return Method('own', reenter_steps=3, after_gap=deed)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    method = method_named("own_method_for_test:make")
    assert re.fullmatch("own_method_for_test:deed [0-9a-f]{16}", method.to_json()["after_gap"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("stronger", "unknown method 'stronger': allowed are uninterrupted, strong"),
        ("weak+clock+cool", "unknown pillar cool: allowed are clock, reconstruct, reenter"),
        ("no_such_module:f", "cannot be imported"),
        ("json:no_such_function", "cannot be imported"),
        (":f", "cannot be imported"),
        ("orbittrace_data.trainers.methods:Regime", "must return a Method, it returned Regime"),
    ],
)
def test_what_names_no_method_is_refused(spec, message):
    with pytest.raises(MethodError, match=message):
        method_named(spec)


def test_clocks_and_horizons_are_checked():
    with pytest.raises(MethodError, match="clock and horizon"):
        Method("bad", clock="solar")
    with pytest.raises(MethodError, match="needs clock='wall'"):
        Method("bad", horizon="wall")


def test_regimes_have_names_and_are_checked():
    assert [Regime().name, Regime("m").name, Regime(drift_at=(3,)).name] == [
        "stationary",
        "state-loss",
        "drift",
    ]
    assert Regime("nothing", (3, 9)).name == "state-loss+drift"
    with pytest.raises(MethodError, match="persists is one of"):
        Regime("everything")
    for steps in [(0,), (5, 5), (5, 3)]:
        with pytest.raises(MethodError, match="rising steps"):
            Regime(drift_at=steps)


def test_the_schedule_warms_up_peaks_and_falls_to_its_final_share():
    values = [warmup_cosine(k, 100, 10, 0.1) for k in range(120)]
    assert values[:10] == [(k + 1) / 10 for k in range(10)]
    assert max(values) == 1.0
    assert all(a >= b for a, b in pairwise(values[10:]))
    assert values[55] == pytest.approx(0.55)
    assert set(values[100:]) == {0.1}
    assert warmup_cosine(0, 1, 0, 0.5) == 1.0
    assert warmup_cosine(0, 1, 1, 0.5) == 1.0


def test_a_ramp_is_as_long_as_the_gap_calls_for():
    assert reentry_length(20, 0.9, 0) == 0
    lengths = [reentry_length(20, 0.9, delta) for delta in range(100)]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 20
    assert reentry_length(0, 0.9, 50) == 0
    assert [reentry(i, 0) for i in range(3)] == [1.0, 1.0, 1.0]
    assert reentry(0, 19) == 0.05
    with pytest.raises(ValueError, match="beta in"):
        reentry_length(20, 1.0, 3)


OWN = """
import torch
from orbittrace_data.trainers.methods import Method
from orbittrace_data.trainers.tasks import Task

def deed(gap, model, optimizer):
    optimizer.state.clear()

def method():
    return Method("own", after_gap=deed)

def task():
    return Task("own", lambda: torch.nn.Linear(1, 1), lambda seed, step: torch.zeros(1, 1),
        lambda model, batch: model(batch).sum(), lambda model: {})
"""


def test_an_edit_of_ones_own_code_makes_another_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "own_code_of_a_test.py"

    def digests(text):
        path.write_text(text)
        sys.modules.pop("own_code_of_a_test", None)
        importlib.invalidate_caches()
        task_named.cache_clear()
        hour = Trace("hour", 3_600_000, [[1_800_000, 3_600_000]])
        configs = [
            Config(task, hour, method, steps=5, step_s=60)
            for task, method in (
                ("own_code_of_a_test:task", "strong"),
                ("resnet-mnist", "own_code_of_a_test:method"),
                ("resnet-mnist", "strong"),
                ("orbittrace_data.trainers.sizes:gpt2_narrow", "aat"),
            )
        ]
        return [config.digest for config in configs]

    before, again, after = digests(OWN), digests(OWN), digests(OWN + "\n# edited\n")
    assert before == again
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True, True]


def test_what_ships_has_no_code_in_its_identity():
    # A change here would make every finished study run again.
    assert set(AAT.to_json().values()) <= {"aat", True, False, "active", 20, None}
    hour = Trace("hour", 3_600_000, [[1_800_000, 3_600_000]])
    assert "task_code" not in Config("orbittrace_data.trainers.sizes:gpt2_narrow", hour).identity()
