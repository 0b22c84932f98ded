import math

import pytest
from comparison_rows import row, study_rows

from orbittrace_data.trainers.protocol import PROTOCOL, ProtocolError, at_the_edge, check, choose, violations

TRUTH = {("strong", "all", False): 0.0, ("weak", "all", False): 0.1, ("aat", "all", False): 0.01}


@pytest.fixture
def rows():
    rows = study_rows(TRUTH)
    assert violations(rows) == []
    return rows


def test_tuning_on_test_is_refused(rows):
    next(r for r in rows if r["stage"] == "tune").update(split="test", trace="leo-25544")
    assert violations(rows) == ["gpt2-tiny (160 steps): leo-25544 of the test split were tuned on"]


def test_reporting_on_dev_is_refused(rows):
    rows += [r | {"trace": "leo-44714", "split": "dev"} for r in rows if r["stage"] == "report" and r["gaps"]]
    assert "leo-44714 of the dev split were reported on" in violations(rows)[0]


def test_a_seed_that_is_tuned_with_is_not_reported(rows):
    for r in rows:
        if r["stage"] == "tune":
            r["seed"] = 3
    assert "seeds [3] were tuned with and reported" in violations(rows)[0]


def test_a_greater_budget_is_refused(rows):
    rows.append(row(stage="tune", method="aat", trace="leo-44714", seed=1000, loss=9.0, lr_factor=4.0))
    broken = violations(rows)
    assert any("aat had a tuning budget of 4 runs a trace" in b for b in broken)
    assert any("strong, weak had a tuning budget of 3 runs a trace" in b for b in broken)


def test_another_learning_rate_than_the_chosen_is_refused(rows):
    for r in rows:
        if r["stage"] == "report" and r["method"] == "aat":
            r["lr_factor"] = 2.0
    assert any(
        "aat (all state persists) reports [2.0] of the learning rate where tuning chose 1.0" in b
        for b in violations(rows)
    )


def test_a_method_that_was_not_tuned_is_refused(rows):
    kept = [r for r in rows if (r["stage"], r["method"]) != ("tune", "weak")]
    assert any("weak (all state persists) was not tuned" in b for b in violations(kept))


def test_a_method_tuned_on_more_traces_is_refused(rows):
    more = [
        r | {"trace": "leo-41917", "config": r["config"] + "x"}
        for r in rows
        if (r["stage"], r["method"]) == ("tune", "weak")
    ]
    assert "weak had the tuning traces leo-41917, leo-44714" in " ".join(violations(rows + more))


def test_missing_seeds_are_refused(rows):
    kept = [r for r in rows if (r["method"], r["seed"]) != ("aat", 4)]
    assert any("seeds differ under leo-25544" in b for b in violations(kept))


def test_a_failed_run_counts_as_run(rows):
    for r in rows:
        if (r["method"], r["seed"], r["trace"]) == ("aat", 4, "leo-25544"):
            r.update(error="ValueError: no", validation_loss=None, fingerprint=None)
    assert violations(rows) == []


def test_other_data_are_refused(rows):
    rows[0]["data_sha256"] = "other"
    assert "2 different data sets" in violations(rows)[0]


def test_another_release_is_refused(rows):
    next(r for r in rows if r["release"])["release"] = "2.0.0"
    assert "data releases 1.0.0 and 2.0.0" in violations(rows)[0]


def test_releases_with_the_same_traces_are_one(rows):
    next(r for r in rows if r["release"])["release"] = "1.1.0"  # which added the config energy to 1.0.0
    assert violations(rows) == []


def test_other_lengths_and_machines_are_other_comparisons(rows):
    longer = [r | {"steps": 400, "config": r["config"][::-1]} for r in rows]
    assert violations(rows + longer) == []


def test_the_error_names_what_is_broken(rows):
    rows[0]["data_sha256"] = "other"
    with pytest.raises(ProtocolError, match=r"different data sets .* insist with --unprotected") as caught:
        check(rows)
    assert len(caught.value.broken) == 1


def test_the_lowest_loss_is_chosen_and_the_smaller_factor_of_equals():
    def tuned(factor, *losses):
        return [row(stage="tune", seed=1000 + k, lr_factor=factor, loss=x) for k, x in enumerate(losses)]

    key = ("gpt2-tiny", "strong", "all", False, "leo-44714")
    rows = tuned(0.5, 2.0, 2.0) + tuned(1.0, 1.5, 2.5) + tuned(2.0, math.nan, 1.0)
    assert choose(rows) == {key: 0.5}
    assert at_the_edge(rows) == [key]
    assert choose(tuned(0.5, 3.0) + tuned(1.0, 2.0)) == {key: 1.0}


def test_the_references_take_strongs_rate():
    rows = [row(stage="tune", method="strong", seed=1000, lr_factor=f, loss=f) for f in (0.5, 1.0)]
    fresh = row(method="strong-fresh-order", lr_factor=0.5)
    assert not [b for b in violations([*rows, fresh]) if "fresh" in b]


def test_the_protocol_ships():
    assert "Tune on `dev`, report on `test`" in PROTOCOL.read_text()
