import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import availability, traces

from orbittrace_data import Trace, load_trace
from orbittrace_data.errors import InputError
from orbittrace_data.trace import TimeOutsideTraceError, TraceError

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@given(traces())
def test_look_ups_agree_with_brute_force(trace):
    available = availability(trace)
    t = np.arange(trace.span_ms)
    assert trace.is_available(t).tolist() == available.tolist()
    assert trace.active_ms(np.arange(trace.span_ms + 1)).tolist() == [0, *np.cumsum(available).tolist()]
    assert trace.active_total_ms == available.sum()
    for now in t.tolist():
        start, stop = trace.next_gap(now)
        ahead = np.flatnonzero(~available[now:])
        if not len(ahead):
            assert (start, stop) == (trace.span_ms, trace.span_ms)
        else:
            assert start <= now + ahead[0] < stop
            assert not available[start:stop].any()
            assert start == 0 or available[start - 1]
            assert stop == trace.span_ms or available[stop]


@given(traces())
def test_windows_and_gaps_tile_the_span(trace):
    both = np.concatenate([trace.windows, trace.gaps])
    both = both[np.argsort(both[:, 0])]
    assert both[0, 0] == 0
    assert both[-1, 1] == trace.span_ms
    assert (both[1:, 0] == both[:-1, 1]).all()


@given(traces())
def test_wall_clock_inverts_active_time(trace):
    active = np.arange(trace.active_total_ms + 1)
    at = trace.active_ms(np.arange(trace.span_ms + 1))
    for side, pick in (("left", 0), ("right", -1)):
        wall = trace.wall_ms(active, side=side)
        assert trace.active_ms(wall).tolist() == active.tolist()
        assert wall.tolist() == [np.flatnonzero(at == a)[pick] for a in active]
    assert trace.wall_ms(trace.active_total_ms) == trace.span_ms


@given(traces())
def test_a_window_that_begins_after_a_gap_is_where_work_goes_on(trace):
    for start, stop in trace.windows.tolist():
        assert trace.wall_ms(trace.active_ms(start)) == start
        assert trace.wall_ms(trace.active_ms(stop), side="left") == stop


@given(traces(), st.data())
def test_crop_repeat_and_shrink_agree_with_brute_force(trace, data):
    a = data.draw(st.integers(0, trace.span_ms - 1))
    b = data.draw(st.integers(a + 1, trace.span_ms))
    available = availability(trace)
    assert availability(trace.crop(a, b)).tolist() == available[a:b].tolist()
    n = data.draw(st.integers(1, 4))
    assert availability(trace.repeat(n)).tolist() == np.tile(available, n).tolist()
    margin = data.draw(st.integers(0, 5))
    dark = np.flatnonzero(~available)
    near = [len(dark) > 0 and np.abs(dark - t).min() <= margin for t in range(trace.span_ms)]
    assert availability(trace.shrink(margin)).tolist() == [not n for n in near]


@given(traces())
def test_rows_and_intervals_round_trip(trace):
    assert Trace.from_row(trace.to_row()) == trace
    assert Trace.from_intervals(trace.gaps, span_ms=trace.span_ms, trace_id="drawn") == trace
    assert Trace.from_intervals(windows=trace.windows, span_ms=trace.span_ms, trace_id="drawn") == trace


def test_scalars_give_scalars_and_arrays_keep_their_shape():
    trace = Trace("demo", 100, [[30, 40]])
    assert trace.is_available(0) is True
    assert type(trace.active_ms(50)) is int
    assert type(trace.wall_ms(50)) is int
    assert trace.active_ms(np.zeros((2, 3), np.int32)).shape == (2, 3)
    assert trace.next_gap(np.zeros((2, 3), int)).shape == (2, 3, 2)
    assert trace.active_ms([]).shape == (0,)


def test_intervals_are_read_only_and_independent_of_what_was_given():
    gaps = np.array([[30, 40]])
    trace = Trace("demo", 100, gaps)
    gaps[0, 0] = 0
    assert trace.gaps.tolist() == [[30, 40]]
    for array in (trace.gaps, trace.windows):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(AttributeError):
        trace.span_ms = 5


@pytest.mark.parametrize("look_up", ["is_available", "next_gap", "active_ms", "wall_ms"])
@pytest.mark.parametrize("outside", [-1, 101, [0, 101]])
def test_times_outside_are_refused(look_up, outside):
    trace = Trace("demo", 100, [[30, 40]])
    with pytest.raises(TimeOutsideTraceError, match=r"trace demo: .* is outside \[0, \d+\] ms"):
        getattr(trace, look_up)(outside)


def test_the_end_of_the_span_is_no_available_instant():
    with pytest.raises(TimeOutsideTraceError):
        Trace("demo", 100, []).is_available(100)


def test_half_milliseconds_are_refused():
    with pytest.raises(InputError, match="round them first"):
        Trace("demo", 100, []).active_ms(1.5)


def test_datetimes_with_any_zone_and_milliseconds_give_the_same_trace():
    zone = timezone(timedelta(hours=2))
    start = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)
    given_local = [(datetime(2026, 3, 29, 2, 1, tzinfo=zone), datetime(2026, 3, 29, 2, 2, tzinfo=zone))]
    a = Trace.from_intervals(given_local, start=start, span_ms=200_000)
    b = Trace.from_intervals([[60_000, 120_000]], start=start, span_ms=200_000)
    assert a == b
    assert a.stop == start + timedelta(milliseconds=200_000)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Trace("x", 0, []), r"span_ms must lie in \[1,"),
        (lambda: Trace("x", 10, [[5, 11]]), r"outside the span \[0, 10\]"),
        (lambda: Trace("x", 10, [], start=datetime(2026, 1, 1)), "has no time zone"),
        (lambda: Trace("x", 10, [], start=datetime(2026, 1, 1, 0, 0, 0, 5, UTC)), "finer than a millisecond"),
        (lambda: Trace.from_intervals(), "either gaps= or windows="),
        (lambda: Trace.from_intervals([], windows=[]), "either gaps= or windows="),
        (lambda: Trace.from_intervals([]), "give span_ms or start and stop"),
        (lambda: Trace.from_intervals([[0, 1]], stop=datetime(2026, 1, 1, tzinfo=UTC)), "stop needs start"),
        (lambda: Trace.from_intervals([(datetime(2026, 1, 1), datetime(2026, 1, 2))]), "has no time zone"),
        (
            lambda: Trace.from_intervals([(datetime(2026, 1, 1, tzinfo=UTC), 5)]),
            "mix datetimes and milliseconds",
        ),
        (lambda: Trace("x", 10, []).crop(5, 5), "crop needs a_ms < b_ms"),
        (lambda: Trace("x", 10, []).repeat(0), r"repeat needs n in \[1,"),
        (lambda: Trace("x", 10, []).shrink(-1), "must not be negative"),
        (lambda: Trace("x", 10, []).wall_ms(1, side="middle"), "side must be 'left' or 'right'"),
        (lambda: Trace.from_row({"trace_id": "x"}), "needs the column"),
        (
            lambda: Trace.from_intervals([(0, 1)], span_ms=5, start=NEW_YEAR, stop=NEW_YEAR + timedelta(1)),
            "span_ms says 5, from start to stop it is 86400000 ms",
        ),
        (lambda: Trace.from_intervals([(0, 1)], span_ms=5, stop=NEW_YEAR), "stop needs start"),
        (lambda: Trace.from_intervals([(True, 2)], span_ms=5), "of type bool"),
        (lambda: Trace("x", 10, []).is_available([0, True]), "of type bool"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_a_row_that_contradicts_itself_is_refused():
    row = Trace("x", 100, [[1, 2], [3, 4]]).to_row() | {"gap_count": 1}
    with pytest.raises(TraceError, match="it was changed after it was built"):
        Trace.from_row(row)


def test_a_span_said_twice_alike_is_one():
    stop = NEW_YEAR + timedelta(milliseconds=5)
    trace = Trace.from_intervals([(0, 1)], span_ms=5, start=NEW_YEAR, stop=stop)
    assert (trace.span_ms, trace.start, trace.stop) == (5, NEW_YEAR, stop)


CSV = {
    "milliseconds": "start_ms,stop_ms\n10,20\n50,60\n",
    "states": "start_ms,stop_ms,available\n0,10,true\n10,20,false\n20,50,1\n50,60,0\n",
}


@pytest.mark.parametrize("text", CSV.values(), ids=CSV)
def test_csv_of_milliseconds(tmp_path, text):
    path = tmp_path / "node.csv"
    path.write_text(text)
    assert Trace.from_csv(path) == Trace("node", 60, [[10, 20], [50, 60]])


def test_csv_with_both_kinds_of_times_keeps_its_start(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "start_ms,stop_ms,start,stop\n1000,2000,2026-01-01T00:00:01Z,2026-01-01T00:00:02Z\n"
        "4000,4500,2026-01-01T01:00:04+01:00,2026-01-01T00:00:04.500Z\n"
    )
    assert Trace.from_csv(path) == Trace("log", 4500, [[1000, 2000], [4000, 4500]], start=NEW_YEAR)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"span_ms": 5000}, None),
        ({"start": datetime(2025, 12, 31, 23, tzinfo=UTC)}, None),
        ({"span_ms": 1999}, r"log.csv, line 2: reaches from 0 to 2000 ms, outside the span \[0, 1999\]"),
        (
            {"start": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)},
            r"log.csv, line 2: reaches from -1000 to 1000 ms, outside the span \[0, 2000\]",
        ),
        (
            {"stop": datetime(2026, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)},
            "line 3: reaches from 2000 to 3000 ms",
        ),
    ],
)
def test_rows_outside_the_span_that_is_asked_for_are_named(tmp_path, options, sentence):
    path = tmp_path / "log.csv"
    path.write_text(
        "start,stop\n2026-01-01T00:00:00Z,2026-01-01T00:00:02Z\n2026-01-01T00:00:02Z,2026-01-01T00:00:03Z\n"
    )
    if sentence is None:
        trace = Trace.from_csv(path, **options)
        assert trace.start == options.get("start", NEW_YEAR)
        assert trace.gaps.tolist() == [[0, 3000] if "span_ms" in options else [3_600_000, 3_603_000]]
        return
    with pytest.raises(TraceError, match=sentence):
        Trace.from_csv(path, **options)


def test_csv_of_datetimes(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "start,stop,available\n2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,true\n"
        "2026-01-01T01:00:00Z,2026-01-01T01:00:10+00:00,false\n"
    )
    trace = Trace.from_csv(path, trace_id="mine")
    assert trace.gaps.tolist() == [[3_600_000, 3_610_000]]
    assert trace.start == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "needs a header with start_ms and stop_ms"),
        ("start_ms,stop_ms\n0,1\n\n9,5\n", "bad.csv, line 4: stops 4 ms before it starts"),
        ("start_ms,stop_ms\n-1,5\n", "bad.csv, line 2: start_ms is '-1', not a whole number .* from 0 to"),
        ("start_ms,stop_ms\n1\x0b,5\n", "line 2: start_ms is '1.x0b'"),
        ("start_ms,stop_ms,note\n1,5,a\x0bb\u2028c\n9,5,d\n", "line 3: stops 4 ms before it starts"),
        ("start_ms,stop_ms\n1,99999999999999999\n", "line 2: stop_ms is '99999999999999999'"),
        (
            "start,stop\n2026-01-01T00:00:00Z,2026-01-01T00:00:00.0001Z\n",
            "bad.csv, line 2: stop '.*' is finer than a millisecond",
        ),
        (
            "start,stop\n2026-01-01T00:00:00.000000001Z,2026-01-01T00:00:01Z\n",
            "bad.csv, line 2: start '.*' is finer than a millisecond",
        ),
        (
            "start,stop\n0001-01-01T00:00:00+14:00,2026-01-01T00:00:01Z\n",
            "bad.csv, line 2: start: .* outside the years",
        ),
        (
            "start,stop,start_ms,stop_ms\n2026-01-01T00:00:00Z,2026-01-01T00:00:01Z,5,1005\n"
            "2026-01-01T00:00:02Z,2026-01-01T00:00:03Z,2000,3000\n",
            "bad.csv, line 3: start and stop say other times than start_ms and stop_ms, by line 2",
        ),
        (
            "start,stop,start_ms,stop_ms\n2026-01-01T00:00:00Z,2026-01-01T00:00:01Z,5,6\n",
            "line 2: start and stop say",
        ),
        ("start_ms,stop_ms\n1,x\n", "line 2: stop_ms is 'x', not a whole number of milliseconds"),
        ("start_ms,stop_ms\n1\n", "line 2: stop_ms is None"),
        ("start,stop\n2026-01-01T00:00:00,2026-01-01T00:00:01Z\n", "line 2: start .* has no time zone"),
        ("start_ms,stop_ms,available\n1,2,maybe\n", "line 2: available is 'maybe'; allowed are"),
    ],
)
def test_bad_csv_names_its_line(tmp_path, text, sentence):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=sentence):
        Trace.from_csv(path)


def test_traces_are_equal_by_content_and_usable_as_keys():
    a, b = Trace("x", 10, [[1, 2]]), Trace("x", 10, [[1, 2]])
    assert a == b
    assert len({a, b}) == 1
    assert a != Trace("x", 10, [[1, 3]])
    assert a.digest != Trace("x", 11, [[1, 2]]).digest


def test_nobody_can_write_into_a_trace_or_into_a_workers_copy():
    trace = pickle.loads(pickle.dumps(load_trace("leo-25544")))
    assert trace == load_trace("leo-25544")
    assert (trace.split, trace.release) == ("test", "1.1.0")
    for array in (trace.gaps, trace.windows):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"duty_cycle": 0.1}, "duty_cycle says 0.1, by the row's own gaps it is 0.63"),
        ({"longest_gap_ms": 5}, "longest_gap_ms says 5"),
        ({"span_ms": 10**12}, "duty_cycle says"),
        ({"regime": "zzz"}, "regime must be one of leo, meo, geo, heo, other, got 'zzz'"),
        ({"trace_id": None}, "trace_id must be a text, got None"),
        ({"catalog_number": "abc"}, "catalog_number must be a whole number, got 'abc'"),
        ({"catalog_number": 1.5}, "catalog_number must be a whole number, got 1.5"),
        ({"element_age_ms": True}, "element_age_ms must be a whole number, got True"),
        ({"inclination_deg": float("nan")}, "inclination_deg must be a finite number, got nan"),
        ({"perigee_km": float("-inf")}, "perigee_km must be a finite number, got -inf"),
        ({"period_s": None}, "period_s must be a finite number, got None"),
        ({"orbit_class": []}, r"orbit_class must be a text, got \[\]"),
        ({"object_id": None}, "object_id must be a text, got None"),
        ({"epoch": None}, "a timestamp must be a datetime, got None"),
        ({"gap_stop_ms": [1]}, "this is no row of the traces config"),
        ({"start": "2024"}, "a timestamp must be a datetime, got '2024'"),
    ],
)
def test_a_row_with_a_fact_that_cannot_be_is_refused(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        Trace.from_row(load_trace("leo-25544").to_row() | changes)


@pytest.mark.parametrize("row", [None, 3, []])
def test_what_is_no_row_is_refused(row):
    with pytest.raises(TraceError, match="from_row reads one row, got"):
        Trace.from_row(row)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "start_ms,stop_ms,available\n0,5,false\n3,9,true\n",
            "lines 2 and 3: both available and not available from 3 to 5 ms",
        ),
        ("start_ms,start_ms,stop_ms\n0,1,2\n", "names a column more than once"),
        ("start_ms,stop_ms\n0,1,2\n", "line 2: has more fields than the header's 2"),
        ("start_ms,stop_ms\n1_000,2000\n", "start_ms is '1_000', not a whole number"),
        ("start_ms,stop_ms\n\u0661,2000\n", "not a whole number"),
        (f"start_ms,stop_ms\n{'1' * 200_000},2\n", "this is no CSV: field larger than field limit"),
    ],
)
def test_a_csv_that_contradicts_itself_is_refused(tmp_path, text, sentence):
    path = tmp_path / "odd.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=sentence):
        Trace.from_csv(path)
