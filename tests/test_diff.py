from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from strategies import traces

from orbittrace_data import Trace
from orbittrace_data.builders.diff import diff_releases, diff_traces, overlapping_pairs

START = datetime(2026, 1, 1, tzinfo=UTC)


@given(traces())
def test_a_trace_does_not_differ_from_itself(trace):
    d = diff_traces(trace, trace)
    assert (d.appeared, d.vanished, d.max_shift_ms, d.median_shift_ms) == (0, 0, 0, 0.0)
    assert len(d.start_shift_ms) == trace.gap_count


@given(traces(), traces())
def test_pairs_are_those_that_overlap(a, b):
    brute = [[i, j] for i, (s, e) in enumerate(a.gaps) for j, (t, f) in enumerate(b.gaps) if s < f and t < e]
    assert overlapping_pairs(a.gaps, b.gaps).tolist() == brute


@given(traces(), traces())
def test_what_is_paired_appeared_or_vanished_is_every_gap(a, b):
    shared = min(a.span_ms, b.span_ms)
    a, b = a.crop(0, shared), b.crop(0, shared)
    pairs = overlapping_pairs(a.gaps, b.gaps)
    d = diff_traces(a, b)
    assert d.vanished + len(np.unique(pairs[:, 0])) == a.gap_count
    assert d.appeared + len(np.unique(pairs[:, 1])) == b.gap_count


def test_contacts_are_compared_on_the_calendar():
    a = Trace("x", 1000, [[100, 200], [500, 600]], start=START)
    b = Trace("x", 1000, [[3, 100], [398, 505]], start=START + timedelta(milliseconds=100))
    d = diff_traces(a, b)
    assert d.same_dates
    assert d.start_shift_ms.tolist() == [3, -2]
    assert d.stop_shift_ms.tolist() == [0, 5]
    assert d.max_shift_ms == 5


def test_other_dates_are_not_paired():
    a = Trace("x", 1000, [[100, 200]], start=START)
    d = diff_traces(a, Trace("x", 1000, [[100, 150], [200, 300]], start=START + timedelta(days=600)))
    assert not d.same_dates
    assert (d.gaps_a, d.gaps_b, d.appeared, d.vanished) == (1, 2, 0, 0)


def test_traces_of_one_release_only_are_named():
    a, b, c = (Trace(name, 10, []) for name in "abc")
    result = diff_releases([a, b], [b, c])
    assert (result.only_a, result.only_b) == (("a",), ("c",))
    assert [t.trace_id for t in result.traces] == ["b"]
