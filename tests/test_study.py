import json

import pytest

from orbittrace_data.cli import run as orbittrace
from orbittrace_data.trainers import sizes
from orbittrace_data.trainers.methods import Method
from orbittrace_data.trainers.study import (
    STUDIES,
    StudyError,
    read_study,
    report_runs,
    study_from,
    tuning_runs,
)

SMALL = {
    "name": "small",
    "task": [{"name": "resnet-mnist", "steps": 12, "step_s": 900.0, "evaluate_every": 6}],
    "tune": {"traces": ["leo-44714"], "seeds": [1000], "lr_factors": [0.5, 1.0]},
    "block": [
        {"tasks": ["resnet-mnist"], "methods": ["uninterrupted"], "seeds": [0, 1], "orders": [0, 1]},
        {"tasks": ["resnet-mnist"], "methods": ["strong", "weak"], "traces": ["leo-25544"], "seeds": [0, 1]},
    ],
}

AS_TOML = """
name = "small"
[[task]]
name = "resnet-mnist"
steps = 12
step_s = 900.0
evaluate_every = 6
[tune]
traces = ["leo-44714"]
seeds = [1000]
lr_factors = [0.5, 1.0]
[[block]]
tasks = ["resnet-mnist"]
methods = ["uninterrupted"]
seeds = [0, 1]
orders = [0, 1]
[[block]]
tasks = ["resnet-mnist"]
methods = ["strong", "weak"]
traces = ["leo-25544"]
seeds = [0, 1]
"""


def changed(**changes):
    return json.loads(json.dumps(SMALL)) | changes


def mine() -> Method:
    return Method("mine", reenter_steps=5)


def test_every_study_that_ships_expands():
    names = []
    for path in sorted(STUDIES.glob("*.toml")):
        which, _, scale = path.stem.partition("-")
        study = read_study(which, scale or None)
        names.append(study.name)
        if study.device == "cpu":
            tune = tuning_runs(study)
            report = report_runs(study, dict.fromkeys((run.key for run in tune), 1.0))
            digests = [run.config.digest for run in tune + report]
            assert len(set(digests)) == len(digests)
            assert {run.config.trace.split for run in tune} <= {"dev", None}
            assert {run.config.trace.split for run in report} <= {"test", None}
            assert all(json.loads(json.dumps(run.config.to_json())) for run in report)
            assert tune[0].key[1] == "strong"
    assert names == ["paper-cpu", "paper-gpu", "quick"]


def test_tuning_follows_from_what_is_reported():
    study = study_from(SMALL)
    tune = tuning_runs(study)
    assert [(run.key[1], run.lr_factor) for run in tune] == [
        ("strong", 0.5),
        ("strong", 1.0),
        ("weak", 0.5),
        ("weak", 1.0),
    ]
    chosen = {("resnet-mnist", "strong", "all", False, "leo-44714"): 0.5}
    chosen |= {("resnet-mnist", "weak", "all", False, "leo-44714"): 1.0}
    report = report_runs(study, chosen)
    assert len(report) == 2 * 2 + 2 * 2
    rates = {run.config.resolved_method.name: run.config.lr for run in report}
    assert rates == {"uninterrupted": 0.1, "strong": 0.1, "weak": 0.2}
    orders = [(r.config.seed, r.config.order_seed) for r in report if r.config.trace.is_control]
    assert orders == [(0, None), (0, 10_000), (1, None), (1, 10_001)]


def test_ones_own_method_joins_every_block_with_strong():
    study = study_from(SMALL).with_method("test_study:mine")
    names = [run.config.resolved_method.name for run in tuning_runs(study)]
    assert names == ["strong", "strong", "weak", "weak", "mine", "mine"]
    assert study.blocks[0].methods == ("uninterrupted",)


def test_drift_is_half_way_and_for_the_reference_too():
    blocks = [{"tasks": ["resnet-mnist"], "methods": ["uninterrupted"], "drift": [True], "seeds": [0]}]
    study = study_from(changed(block=blocks))
    tune = tuning_runs(study)
    assert {run.config.regime.drift_at for run in tune} == {(6,)}
    assert {run.config.resolved_method.name for run in tune} == {"strong"}


def test_a_schedule_is_tuned_on_itself():
    blocks = [*SMALL["block"], {"tasks": ["resnet-mnist"], "methods": ["strong"], "traces": ["pause:1800s/900s"],
              "persists": ["nothing"], "seeds": [0], "tune_on": ["pause:1800s/900s"]}]  # fmt: skip
    tune = tuning_runs(study_from(changed(block=blocks)))
    assert {run.config.trace.trace_id for run in tune if run.key[2] == "nothing"} == {"pause-1800s-900s"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "unknown colour; allowed are name, tasks"),
        ({"block": []}, r"needs one \[\[block\]\]"),
        (
            {"block": [{"tasks": ["nope"], "methods": ["strong"], "traces": ["x"], "seeds": [0]}]},
            "names nope",
        ),
        ({"block": [{"tasks": ["resnet-mnist"], "methods": ["strong"], "seeds": [0]}]}, "without traces"),
        (
            {"block": [{"tasks": ["resnet-mnist"], "methods": ["strnog"], "traces": ["x"], "seeds": [0]}]},
            "strnog",
        ),
        (
            {"block": [{"tasks": ["resnet-mnist"], "methods": ["uninterrupted"], "seeds": [1000]}]},
            "seeds .1000.",
        ),
        ({"block": [{"tasks": "resnet-mnist", "methods": ["strong"], "seeds": [0]}]}, "tasks must be a list"),
        ({"tune": {"traces": []}}, "missing"),
        ({"tune": {"traces": [], "seeds": [1], "lr_factors": [1]}}, "one trace, one seed and one factor"),
        ({"task": [{"name": "resnet-mnist"}]}, "steps"),
    ],
)
def test_what_is_no_study_is_refused(changes, message):
    with pytest.raises(StudyError if "strnog" not in message else ValueError, match=message):
        study_from(changed(**changes))


def test_two_methods_of_one_name_are_refused():
    blocks = [
        {
            "tasks": ["resnet-mnist"],
            "methods": ["strong", "test_study:called_strong"],
            "traces": ["x"],
            "seeds": [0],
        }
    ]
    with pytest.raises(StudyError, match="have the same name"):
        study_from(changed(block=blocks))


def called_strong() -> Method:
    return Method("strong", reenter_steps=9)


@pytest.mark.parametrize(("which", "scale"), [("nope", None), ("quick", "gpu"), ("paper", "huge")])
def test_unknown_studies_and_scales_are_refused(which, scale):
    with pytest.raises(StudyError, match=r"quick|cpu, gpu"):
        read_study(which, scale)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = [0, 1]", 'seeds = ["a"]', "seeds must be a list, each entry a whole number, got ['a']"),
        ("seeds = [0, 1]", "seeds = [0.5]", "seeds must be a list, each entry a whole number"),
        ("seeds = [0, 1]", "seeds = [true]", "seeds must be a list, each entry a whole number"),
        ("seeds = [0, 1]", "seeds = 1", "seeds must be a list"),
        ("seeds = [0, 1]", "seeds = [-1]", "seed must be at least 0, got -1"),
        ("steps = 12", 'steps = "x"', "steps must be a whole number, got 'x'"),
        ("step_s = 900.0", "step_s = 90000", "can never finish"),
        ("lr_factors = [0.5, 1.0]", 'lr_factors = ["a"]', "lr_factors must be a list, each entry a number"),
        ("lr_factors = [0.5, 1.0]", "lr_factors = [-1.0]", "lr must be a positive number"),
        ('"weak"]', "3]", "methods must be a list, each entry a text"),
        ('"leo-25544"', '"leo-1"', "leo-1"),
        ('"leo-25544"', '"leo-44714"', "leo-44714 of the dev split were reported on"),
        ('"leo-44714"', '"leo-25544"', "leo-25544 of the test split were tuned on"),
        ('name = "small"', 'name = "small"\nprecision = "fp8"', "precision must be one of fp32, bf16, fp16"),
        ('name = "small"', 'name = "../x"', "name must be made of letters"),
        ("orders = [0, 1]", 'persists = ["half"]', "persists is one of all, m, v, nothing"),
    ],
)
def test_what_is_wrong_in_a_study_is_said_before_any_run(tmp_path, capsys, old, new, message):
    assert old in AS_TOML
    (tmp_path / "study.toml").write_text(AS_TOML.replace(old, new, 1))
    command = ["compare", "--study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]
    assert orbittrace(command) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", ["weak", "test_study:mine"])
def test_a_method_that_a_study_has_already_is_refused(method):
    study = read_study("quick").with_method("test_study:mine")
    with pytest.raises(StudyError, match=r"has a method .* already: leave"):
        study.with_method(method)


def test_files_that_are_no_toml_are_refused(tmp_path):
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(StudyError, match="no TOML file"):
        read_study(str(tmp_path / "bad.toml"))


@pytest.mark.parametrize(("make", "parameters"), [(sizes.gpt2_narrow, 23_008), (sizes.gpt2_wide, 834_304)])
def test_sizes(make, parameters):
    assert sum(p.numel() for p in make().model().parameters()) == parameters
