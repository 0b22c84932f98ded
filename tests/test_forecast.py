import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.errors import InputError
from orbittrace_data.forecast import ForecastError, find_misses, likely_shifts, shift_contacts, with_outages
from orbittrace_data.trace import DAY_MS, Trace

FEW = settings(max_examples=50, deadline=None)
HOUR = 3_600_000
ORBITS = Trace("orbits", 14 * DAY_MS, [[t, t + HOUR // 2] for t in range(HOUR, 14 * DAY_MS, 2 * HOUR)])


def test_together_all_contacts_move_alike():
    moved = shift_contacts(ORBITS, 5, seed=3)
    late = np.unique(moved.gaps - ORBITS.gaps)
    assert len(late) == 1
    assert late[0] != 0
    assert moved.span_ms == ORBITS.span_ms


def test_errors_have_the_deviation_that_was_asked_for():
    shifts = [int((shift_contacts(ORBITS, 5, seed).gaps - ORBITS.gaps)[0, 0]) for seed in range(400)]
    apart = shift_contacts(ORBITS, 5, 0, together=False).gaps - ORBITS.gaps
    for errors in (np.array(shifts), apart.ravel()):
        assert abs(errors.mean()) < 4 * 5000 / np.sqrt(errors.size)
        assert 4500 < errors.std() < 5500


def test_likely_shifts_are_equal_shares_of_the_normal_distribution():
    moved = likely_shifts(ORBITS, 100, 400)
    shifts = [np.unique(trace.gaps - ORBITS.gaps) for trace in moved]
    assert all(len(shift) == 1 for shift in shifts)
    shares = [(1 + math.erf(shift[0] / 100_000 / math.sqrt(2))) / 2 for shift in shifts]
    assert np.allclose(shares, (np.arange(400) + 0.5) / 400, atol=1e-5)
    assert len({trace.trace_id for trace in moved}) == 400
    assert [trace.gaps.tolist() for trace in likely_shifts(ORBITS, 0, 2)] == [ORBITS.gaps.tolist()] * 2


def test_a_longer_trace_keeps_the_draws_and_another_seed_does_not():
    half = ORBITS.crop(0, 7 * DAY_MS)
    longer = shift_contacts(ORBITS, 5, 1, together=False).gaps
    shorter = shift_contacts(half, 5, 1, together=False).gaps
    assert np.array_equal(longer[: len(shorter)], shorter)
    assert not np.array_equal(shift_contacts(half, 5, 2, together=False).gaps, shorter)
    outages = [with_outages(Trace("c", days * DAY_MS, []), 40_000, 60, seed=1).gaps for days in (7, 14)]
    assert np.array_equal(outages[1][: len(outages[0])], outages[0])


@FEW
@given(st.lists(st.integers(0, 1000), max_size=10), st.integers(0, 50), st.integers(0, 9), st.booleans())
def test_shifted_gaps_stay_within_the_span_and_what_the_span_cuts_stays(edges, sigma, seed, together):
    edges = sorted(edges[: len(edges) // 2 * 2])
    trace = Trace("x", 1000, np.array(edges, np.int64).reshape(-1, 2))
    moved = shift_contacts(trace, sigma / 1000, seed, together=together)
    assert moved.span_ms == 1000
    if trace.gap_count and trace.gaps[0, 0] == 0 and together:
        assert moved.gap_count == 0 or moved.gaps[0, 0] == 0 or trace.gaps[0, 1] < 4 * sigma
    if sigma == 0:
        assert np.array_equal(moved.gaps, trace.gaps)


def test_outages_come_at_their_mean_time_and_last_their_repair():
    failing = with_outages(Trace("c", 400 * DAY_MS, []), DAY_MS / 1000, 600, seed=5)
    assert (failing.gaps[:-1, 1] - failing.gaps[:-1, 0] == 600_000).all()
    between = failing.gaps[1:, 0] - failing.gaps[:-1, 1]
    assert 0.85 * DAY_MS < between.mean() < 1.15 * DAY_MS
    assert 0.85 < between.std() / between.mean() < 1.15  # as an exponential's
    both = with_outages(ORBITS, DAY_MS / 1000, 600, seed=5)
    assert not both.is_available(ORBITS.gaps[:, 0]).any()


def test_misses_of_a_shift_are_the_shift():
    moved = shift_contacts(ORBITS, 5, seed=3)
    late = int((moved.gaps - ORBITS.gaps)[0, 0])
    misses = find_misses(ORBITS, moved)
    assert (misses.start_late_ms == late).all()
    assert (misses.stop_late_ms == late).all()
    assert len(misses.at_ms) == ORBITS.gap_count
    assert misses.margin_ms == max(0, -late)
    back = find_misses(moved, ORBITS)
    assert back.margin_ms == max(0, late)


def test_gaps_without_a_partner_are_named():
    forecast = Trace("f", 1000, [[0, 10], [100, 200], [400, 500], [700, 800]])
    actual = Trace("a", 1000, [[0, 12], [95, 140], [150, 205], [300, 310], [690, 810]])
    misses = find_misses(forecast, actual)
    assert misses.at_ms.tolist() == [690]  # the first is cut by the span, the second fell into two
    assert (misses.start_late_ms.tolist(), misses.stop_late_ms.tolist()) == ([-10], [10])
    assert misses.unforeseen.tolist() == [[300, 310]]
    assert misses.absent.tolist() == [[400, 500]]


@FEW
@given(st.data())
def test_the_margin_of_the_misses_loses_no_step_to_a_gap_that_was_forecast(data):
    error = data.draw(st.integers(-20, 20))
    actual = Trace("a", ORBITS.span_ms, ORBITS.gaps + error * 1000)
    margin_ms = find_misses(ORBITS, actual).margin_ms
    plan = ORBITS.plan(400, step_s=60, save_s=5, restore_s=5, margin_s=margin_ms / 1000, actual=actual)
    assert not plan.lost_count.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shift_contacts(ORBITS, -1, 0), "not negative"),
        (lambda: likely_shifts(ORBITS, 1, 0), "at least 1"),
        (lambda: shift_contacts(ORBITS, 1, -1), "seed"),
        (lambda: shift_contacts(ORBITS, 1, True), "seed"),
        (lambda: with_outages(ORBITS, 0, 0, 0), "at least a millisecond"),
        (lambda: with_outages(ORBITS, 0.0001, 0.001, 0), "rarer"),
        (lambda: find_misses(ORBITS, ORBITS.crop(0, DAY_MS)), "same span"),
    ],
)
def test_what_cannot_be_used_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
    assert issubclass(ForecastError, InputError)
