import numpy as np
import pytest
from comparison_rows import pause_rows, row, study_rows

from orbittrace_data.trainers.claims import FAILS, HOLDS, NOT_RUN, STATEMENTS, UNDECIDED, align, verdicts
from orbittrace_data.trainers.protocol import violations

TRUTH = {
    ("strong", "all", False): 0.0,
    ("strong-fresh-order", "all", False): 0.001,
    ("weak", "all", False): 0.13,
    ("weak-wall-horizon", "all", False): 0.001,
    ("aat", "all", False): 0.002,
    ("strong", "nothing", False): 0.2,
    ("aat", "nothing", False): 0.2001,
    ("strong", "all", True): 0.0,
    ("aat", "all", True): 0.001,
}


def by_claim(rows):
    return {v.claim: v for v in verdicts(rows) if v.verdict != NOT_RUN}


def test_the_papers_world_is_recognised():
    rows = study_rows(TRUTH)
    assert violations(rows) == []
    found = by_claim(rows)
    for claim in ("exact", "fresh-order", "weak-pays", "aat-over-weak", "explained", "wall-horizon"):
        assert found[claim].verdict == HOLDS, claim
    for claim in ("stationary", "state-loss", "drift", "loss-costs"):
        assert found[claim].verdict == HOLDS, claim
    assert found["weak-pays"].difference.mean == pytest.approx(0.13, abs=0.01)
    assert found["explained"].share.low < 0.13 / 0.128 < found["explained"].share.high
    assert found["weak-pays"].floor.sd == pytest.approx(0.02, rel=0.6)
    assert found["weak-pays"].floor.freedom == 5


def test_a_world_in_which_adaptation_pays_is_recognised():
    found = by_claim(study_rows(TRUTH | {("aat", "all", False): -0.1, ("aat", "all", True): -0.2}))
    assert found["stationary"].verdict == FAILS
    assert found["drift"].verdict == FAILS
    assert found["state-loss"].verdict == HOLDS
    assert found["explained"].verdict == FAILS
    assert found["explained"].share.mean == pytest.approx(0.13 / 0.23, abs=0.03)


def test_noise_leaves_things_undecided():
    found = by_claim(study_rows(TRUTH, noise=0.5))
    assert {found[c].verdict for c in ("weak-pays", "aat-over-weak", "stationary", "state-loss")} == {
        UNDECIDED
    }
    assert found["explained"].share is None
    assert found["explained"].note == "AAT's gain over weak is not established"


def test_wrong_verdicts_are_rare():
    """With nothing to find, "gains over weak" is decided wrongly in about 5% of studies, not more."""
    wrong = 0
    for k in range(200):
        rng = np.random.default_rng(k)
        rows = [
            row(method=m, trace="leo-25544", seed=s, loss=2 + rng.normal(0, 0.1))
            for m in ("weak", "aat")
            for s in range(5)
        ]
        wrong += by_claim(rows)["aat-over-weak"].verdict != UNDECIDED
    assert wrong <= 22  # 99.9% of binomial(200, 0.05)


def test_one_changed_bit_ends_the_exact_claim():
    rows = study_rows(TRUTH)
    assert by_claim(rows)["exact"].note == "equal in 20 of 20 runs"
    strong = next(
        r for r in rows if r["method"] == "strong" and r["persists"] == "all" and r["stage"] == "report"
    )
    strong["state_sha256"] = "0" * 64
    found = by_claim(rows)["exact"]
    assert (found.verdict, found.note) == (FAILS, "equal in 19 of 20 runs")


def test_recovery_vanishes_with_the_length_of_the_pause():
    rows = pause_rows({("m", 1): 0.5, ("m", 100): 0.0}) + study_rows({("strong", "all", False): 0.0})
    found = by_claim(rows)
    assert found["recovers"].verdict == HOLDS
    assert found["recovers"].share.low < 0.5 < found["recovers"].share.high
    assert found["vanishes"].verdict == HOLDS
    still = by_claim(
        pause_rows({("m", 1): 0.5, ("m", 100): 0.5}) + study_rows({("strong", "all", False): 0.0})
    )
    assert still["vanishes"].verdict == FAILS


def test_no_share_where_there_is_no_penalty():
    rows = pause_rows({("m", 1): 0.5, ("m", 100): 0.0}, penalty=0.001, noise=0.02)
    found = by_claim(rows + study_rows({("strong", "all", False): 0.0}))
    assert found["recovers"].share is None
    assert "penalty's interval includes 0" in found["recovers"].note


def test_without_a_noise_floor_nothing_is_within_it():
    rows = [r for r in study_rows(TRUTH) if r["seed"] == r["order_seed"]]
    found = by_claim(rows)
    assert found["stationary"].verdict == UNDECIDED
    assert found["stationary"].note == "no noise floor was measured"
    assert found["weak-pays"].verdict == HOLDS


def test_a_loser_whose_tuning_ended_at_the_edge_has_not_lost():
    world = TRUTH | {("aat", "all", False): -0.1}
    rows = study_rows(world)
    assert by_claim(rows)["stationary"].verdict == FAILS
    for r in rows:
        if r["stage"] == "tune" and r["method"] == "strong" and r["persists"] == "all":
            r["validation_loss"] = r["lr_factor"]  # the smallest that was tried is the best
    found = by_claim(rows)
    assert found["stationary"].verdict == UNDECIDED
    assert found["stationary"].note == "the losing side's best learning rate lies at the end of the grid"
    assert found["weak-pays"].verdict == HOLDS
    assert found["state-loss"].verdict == HOLDS


def test_p_is_corrected_over_methods():
    two = study_rows(TRUTH | {("weak+clock+reenter", "all", False): 0.001})
    alone = [v for v in verdicts(study_rows(TRUTH)) if v.claim == "stationary" and v.task == "gpt2-tiny"]
    both = [v for v in verdicts(two) if v.claim == "stationary" and v.task == "gpt2-tiny"]
    assert len(alone) == 1
    assert len(both) == 2
    assert min(v.p for v in both) == pytest.approx(2 * min(alone[0].p, *(v.p / 2 for v in both)), rel=1)


@pytest.mark.parametrize("change", [{"error": "ValueError: no", "fingerprint": None, "validation_loss": None},
                                    {"validation_loss": float("nan")}], ids=["failed", "diverged"])  # fmt: skip
@pytest.mark.parametrize("seeds", [{4}, {0, 1, 2, 3, 4}], ids=["one seed", "every seed"])
def test_a_method_with_a_run_that_failed_is_not_compared(change, seeds):
    rows = study_rows(TRUTH)
    for r in rows:
        chosen = (r["stage"], r["method"], r["persists"], r["trace"]) == ("report", "aat", "all", "leo-25544")
        if chosen and r["seed"] in seeds and not r["drift_at"]:
            r.update(change)
    found = by_claim(rows)
    for claim in ("stationary", "aat-over-weak", "explained"):
        assert found[claim].verdict == UNDECIDED
        assert "a run failed or diverged: not compared" in found[claim].note
        assert found[claim].difference is None
    assert found["weak-pays"].verdict == HOLDS
    assert found["weak-pays"].note == ""


def test_a_method_that_lacks_a_trace_is_not_compared():
    rows = [r for r in study_rows(TRUTH) if (r["method"], r["trace"]) != ("aat", "leo-25544")]
    found = by_claim(rows)
    assert found["stationary"].verdict == UNDECIDED
    assert found["stationary"].note == "a trace is missing: not compared"
    assert found["weak-pays"].verdict == HOLDS


def test_more_traces_than_strong_has_are_no_hindrance():
    rows = study_rows(TRUTH)
    rows += [row(method="weak", trace="meo-39189", seed=s, loss=9.0) for s in range(5)]
    assert by_claim(rows)["weak-pays"].difference == by_claim(study_rows(TRUTH))["weak-pays"].difference


def test_seeds_average_over_the_traces_that_both_have():
    a = {"x": {0: 1.0, 1: 2.0}, "y": {0: 3.0, 1: 4.0}, "z": {0: 100.0}}
    b = {"x": {0: 0.0, 1: 0.0}, "y": {0: 1.0, 1: 1.0, 2: 9.0}}
    traces, seeds, (left, right) = align(a, b)
    assert (traces, seeds) == (("x", "y"), [0, 1])
    assert left.tolist() == [2.0, 3.0]
    assert right.tolist() == [0.5, 0.5]
    assert align(a, {"no-gaps": {0: 5.0, 1: 6.0}})[1] == [0]
    assert align({}, b)[1] == []


def test_every_claim_is_listed_even_where_nothing_ran():
    found = verdicts([])
    assert {v.claim for v in found} == set(STATEMENTS)
    assert {v.verdict for v in found} == {NOT_RUN}
