"""Whatever is given in place of a time, an instant, an id or a source is refused in a sentence."""

from datetime import UTC, datetime

import numpy as np
import pytest

from orbittrace_data import Trace, load_table, load_trace, load_traces, resolve_trace
from orbittrace_data.builders.gp import read_element_sets
from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.satellite_trace import trace_from_elements
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.errors import InputError

TRACE = Trace("demo", 100, [[30, 40]])
NAIVE = datetime(2024, 9, 23)
START = datetime(2024, 9, 23, tzinfo=UTC)
MASKED = np.ma.masked_array([1, 2], [False, True])
ELEMENTS = read_snapshot("2024-09-22").element_sets[0]
NO_TIMES = [None, 2.5, float("nan"), "x", b"x", {}, object(), True, MASKED, [[1, 2], [3]], 10**30, START]
NO_ONE_TIME = [*NO_TIMES, [], [1], [[1]]]
NO_INSTANTS = [3, "2024", [], object(), NAIVE, np.datetime64("2024-09-23"), START.replace(microsecond=1)]
NO_PAIRS = [3, 2.5, "x", [1], [[1]], object(), START, [(START,)], [(START, 1)], [[1, 2], [3]]]


@pytest.mark.parametrize("given", NO_TIMES, ids=repr)
@pytest.mark.parametrize("ask", [TRACE.is_available, TRACE.next_gap, TRACE.active_ms, TRACE.wall_ms])
def test_look_ups(ask, given):
    with pytest.raises(InputError):
        ask(given)


@pytest.mark.parametrize("given", NO_ONE_TIME, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        TRACE.repeat,
        TRACE.shrink,
        lambda given: TRACE.crop(given, 50),
        lambda given: TRACE.crop(0, given),
        lambda given: Trace("demo", given, []),
    ],
)
def test_new_traces(make, given):
    with pytest.raises(InputError):
        make(given)


@pytest.mark.parametrize("given", NO_PAIRS, ids=repr)
@pytest.mark.parametrize("role", ["gaps", "windows"])
def test_intervals(role, given):
    with pytest.raises(InputError):
        Trace.from_intervals(**{role: given}, span_ms=100)


@pytest.mark.parametrize("given", NO_INSTANTS, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda given: Trace("demo", 100, [], start=given),
        lambda given: Trace.from_intervals([[1, 2]], span_ms=100, start=given),
        lambda given: Trace.from_intervals([[1, 2]], start=START, stop=given),
    ],
)
def test_instants(make, given):
    with pytest.raises(InputError, match=r"datetime|zone|finer"):
        make(given)


@pytest.mark.parametrize(
    "given", [3, 2.5, b"x", [], {}, object(), "", np.array([]), np.array(["dev"])], ids=repr
)
@pytest.mark.parametrize(
    "load",
    [
        lambda given: load_traces(config=given),
        lambda given: TRACE.wall_ms(5, side=given),
        load_trace,
        load_table,
        lambda given: load_traces(source=given),
        lambda given: load_traces(version=given),
        lambda given: load_traces(split=given),
        lambda given: load_traces(regime=given),
    ],
)
def test_sources_and_names(load, given):
    with pytest.raises(InputError):
        load(given)


@pytest.mark.parametrize("given", [3, "2024-09-23", START.date(), NAIVE, []], ids=repr)
def test_a_start_of_ones_own_satellite(given):
    with pytest.raises(InputError, match="zone"):
        trace_from_elements(ELEMENTS, given)


@pytest.mark.parametrize("given", ["7", None, [], True, START, float("nan"), 10**400, 1j], ids=repr)
def test_days_of_ones_own_satellite(given):
    with pytest.raises(InputError, match="days must be"):
        trace_from_elements(ELEMENTS, days=given)
    with pytest.raises(InputError, match="days must be"):
        make_recipe(days=given)


@pytest.mark.parametrize("given", ["x", None, 5, [ELEMENTS]], ids=repr)
def test_elements_and_model_of_ones_own_satellite(given):
    with pytest.raises(InputError, match="must be an ElementSet"):
        trace_from_elements(given)
    with pytest.raises(InputError, match="must be a ShadowModel"):
        trace_from_elements(ELEMENTS, model=given or 0)  # None is the default model


@pytest.mark.parametrize("given", [None, 5, b"x", []], ids=repr)
@pytest.mark.parametrize("read", [Trace.from_csv, Trace.from_spot_log, resolve_trace, read_element_sets])
def test_files(read, given):
    with pytest.raises(InputError, match=r"got|names no trace|the data"):
        read(given)


def test_bytes_may_be_of_any_kind():
    content = (ELEMENTS.line1 + "\n" + ELEMENTS.line2 + "\n").encode()
    expected = read_element_sets(content)
    assert len(expected.element_sets) == 1
    assert read_element_sets(bytearray(content)) == read_element_sets(memoryview(content)) == expected


def test_a_span_ends_within_the_calendar():
    with pytest.raises(InputError, match="after the year 9999"):
        Trace("demo", 2**50, [], start=START)
    with pytest.raises(InputError, match="after the year 9999"):
        Trace("demo", 100 * 86_400_000, [], start=START).repeat(40_000)
    assert Trace("demo", 2**50, []).stop is None
    with pytest.raises(InputError, match="1 to 9999"):
        Trace("demo", 100, [], start=datetime.fromisoformat("0001-01-01T00:00:00+14:00"))


def test_a_plan_runs_on_a_trace():
    with pytest.raises(InputError, match="actual"):
        TRACE.plan(3, step_s=0.001, actual="leo-25544")  # type: ignore[arg-type] - the wrong type on purpose
