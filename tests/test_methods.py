import json
from dataclasses import replace
from itertools import pairwise

import pytest

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
    assert method.to_json()["after_gap"] == "own_method_for_test:deed"


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
