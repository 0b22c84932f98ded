"""What hypothesis draws in several test files."""

import numpy as np
from hypothesis import strategies as st

from orbittrace_data import Trace


@st.composite
def traces(draw, max_span_ms: int = 60, max_gaps: int = 6) -> Trace:
    """Small traces, so that every millisecond of them can be checked."""
    span_ms = draw(st.integers(1, max_span_ms))
    instants = st.integers(0, span_ms)
    pairs = draw(st.lists(st.tuples(instants, instants).map(sorted), max_size=max_gaps))
    return Trace("drawn", span_ms, np.array(pairs, np.int64).reshape(-1, 2))


def availability(trace: Trace) -> np.ndarray:
    """The brute-force form of a trace: one truth value a millisecond."""
    available = np.ones(trace.span_ms, bool)
    for start_ms, stop_ms in trace.gaps.tolist():
        available[start_ms:stop_ms] = False
    return available
