import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbittrace_data import intervals
from orbittrace_data.intervals import IntervalError

SPAN = 40
pairs = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(sorted), max_size=8)


def as_set(array):
    return {t for start, stop in array.tolist() for t in range(start, stop)}


def is_canonical(array):
    return (array[:, 0] < array[:, 1]).all() and (array[1:, 0] > array[:-1, 1]).all()


@given(pairs)
def test_union_is_the_canonical_set_of_its_milliseconds(given_pairs):
    union = intervals.union(np.array(given_pairs, np.int64).reshape(-1, 2))
    assert is_canonical(union)
    assert as_set(union) == {t for start, stop in given_pairs for t in range(start, stop)}
    assert intervals.union(union).tolist() == union.tolist()


@given(pairs, pairs)
def test_intersection_is_that_of_sets(a, b):
    a, b = (intervals.union(np.array(x, np.int64).reshape(-1, 2)) for x in (a, b))
    both = intervals.intersection(a, b)
    assert is_canonical(both)
    assert as_set(both) == as_set(a) & as_set(b)


@given(pairs)
def test_complement_is_an_involution_and_tiles_the_span(given_pairs):
    union = intervals.union(np.array(given_pairs, np.int64).reshape(-1, 2))
    rest = intervals.complement(union, SPAN)
    assert is_canonical(rest)
    assert as_set(rest) == set(range(SPAN)) - as_set(union)
    assert intervals.complement(rest, SPAN).tolist() == union.tolist()
    assert intervals.total_ms(union) + intervals.total_ms(rest) == SPAN


@given(pairs, st.integers(0, SPAN), st.integers(0, SPAN))
def test_clip_keeps_what_lies_inside(given_pairs, a, b):
    a, b = sorted((a, b))
    union = intervals.union(np.array(given_pairs, np.int64).reshape(-1, 2))
    assert as_set(intervals.clip(union, a, b)) == as_set(union) & set(range(a, b))


@given(pairs, st.integers(0, 5))
def test_dilate_is_the_set_of_milliseconds_within_the_margin(given_pairs, margin):
    union = intervals.union(np.array(given_pairs, np.int64).reshape(-1, 2))
    near = {t + d for t in as_set(union) for d in range(-margin, margin + 1)}
    assert as_set(intervals.dilate(union, margin)) == near


@pytest.mark.parametrize(
    ("given_value", "sentence"),
    [
        ([[5, 3]], "row 0: stops at 3 ms, before it starts at 5 ms"),
        ([[0, 1, 2]], r"must have shape \(n, 2\)"),
        ([[0.5, 1.0]], "must be whole milliseconds"),
        ([[True, False]], "must be whole milliseconds"),
        ([["0", "1"]], "must be whole milliseconds"),
        (np.array([[0, 2**63]], np.uint64), "must fit into int64"),
    ],
)
def test_what_is_no_interval_is_refused_in_a_sentence(given_value, sentence):
    with pytest.raises(IntervalError, match=sentence):
        intervals.union(given_value)
