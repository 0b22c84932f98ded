"""Small runs on a forecast that misses, for the laws of plans under it."""

import numpy as np
from hypothesis import strategies as st

from orbittrace_data.trace import Trace


@st.composite
def traces(draw, span, name):
    edges = draw(st.lists(st.integers(0, span), max_size=12))
    edges = sorted(edges[: len(edges) // 2 * 2])
    return Trace(name, span, np.array(edges, np.int64).reshape(-1, 2))


@st.composite
def runs(draw):
    span = draw(st.integers(1, 60))
    forecast = draw(traces(span, "forecast"))
    shift = draw(st.sampled_from([None, -3, -1, 1, 3]))  # misses by a little, or another trace altogether
    if shift is None:
        actual = draw(traces(span, "actual"))
    else:
        actual = Trace("actual", span, np.clip(forecast.gaps + shift, 0, span))
    small = st.integers(0, 5)
    cost = (draw(st.integers(1, 9)), draw(small), draw(small), draw(small))
    return forecast, actual, draw(st.integers(1, 30)), cost, draw(st.sampled_from([0, 1, 2, 3, 7]))
