import json
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.spot_logs import SpotLogError, read_spot_log
from orbittrace_data.trace import Trace


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.sampled_from([0.001, 1, 60, 600.5]))
@settings(max_examples=40, deadline=None)
def test_probes_stand_until_the_next_one(tmp_path_factory, data, gap_s):
    log = {"metadata": {"gap_seconds": gap_s, "region": "us-west-2a"}, "data": data, "prices": [1.5]}
    trace = Trace.from_spot_log(written(tmp_path_factory.mktemp("log"), "v100.json", json.dumps(log)))
    gap_ms = round(gap_s * 1000)
    assert (trace.trace_id, trace.span_ms) == ("v100", len(data) * gap_ms)
    for side in (0, gap_ms - 1):
        at = np.arange(len(data)) * gap_ms + side
        assert trace.is_available(at).tolist() == [value == 0 for value in data]


def test_events_become_gaps(tmp_path):
    text = (
        "time,event,node\n2026-01-01T00:00:00Z,up,a\n2026-01-01T01:00:00+01:00,up,a\n"
        "2026-01-01T02:00:00.0004Z,down,a\n2026-01-01T02:30:00Z,up,a\n2026-01-01T03:00:00Z,end,a\n"
    )
    trace = read_spot_log(written(tmp_path, "node.csv", text), trace_id="mine")
    assert trace.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert (trace.trace_id, trace.span_ms) == ("mine", 3 * 3_600_000)
    assert trace.gaps.tolist() == [[2 * 3_600_000, 9_000_000]]


@pytest.mark.parametrize(("column", "unit"), [("time_s", 1), ("time_ms", 1000)])
def test_events_count_from_any_origin(tmp_path, column, unit):
    rows = [f"{(1_700_000_000 + t) * unit},{event}" for t, event in ((0, "DOWN"), (5, " up"), (9, "down"))]
    trace = read_spot_log(written(tmp_path, "x.csv", f"{column},event\n" + "\n".join(rows)))
    assert (trace.span_ms, trace.gaps.tolist(), trace.start) == (9000, [[0, 5000]], None)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "needs metadata"),
        ("a.json", "[]", "needs metadata"),
        ("a.json", '{"metadata": {"gap_seconds": 0}, "data": [0]}', "positive whole milliseconds"),
        ("a.json", '{"metadata": {"gap_seconds": 0.0001}, "data": [0]}', "positive whole milliseconds"),
        ("a.json", '{"metadata": {"gap_seconds": 60}, "data": [0, 2]}', r"data\[1\] is 2"),
        ("a.json", '{"metadata": {"gap_seconds": 60}, "data": []}', "a list of one number"),
        ("a.csv", "time,state\n", "header with event"),
        ("a.csv", "time_s,event\n0,up\n1,stopped\n", "line 3: event is 'stopped'"),
        ("a.csv", "time_s,event\n5,up\n1,down\n", "line 3: goes back"),
        ("a.csv", "time_s,event\n5,end\n6,down\n", "follows the end"),
        ("a.csv", "time_s,event\n5,up\n", "two events"),
        ("a.csv", "time_s,event\nsoon,up\n", "a number of seconds"),
        ("a.csv", "time,event\n2026-01-01T00:00:00,up\n", "with a zone"),
        ("a.csv", "time_s,time_ms,event\n0,0,up\n1,1000,end\n", "one of time, time_s and time_ms; it has"),
        ("a.csv", "time_s,event,event\n0,up,up\n1,end,end\n", "names a column more than once"),
        ("a.csv", "time_s,event\n0,up,3\n1,end\n", "line 2: has more fields"),
        ("a.csv", 'time_s,event\n0,"up\n', "this is no CSV"),
        ("a.csv", "time_s,event\n1/3,up\n", "a number of seconds"),
        ("a.csv", "time_s,event\n1e99999999,up\n", "a number of seconds"),
        ("a.csv", "time_ms,event\n0,up\n1_000,end\n", "line 3: time_ms is '1_000', not a whole number"),
        ("a.csv", "time_ms,event\n0,up\n99999999999999999999,end\n", "line 3: time_ms is"),
        ("a.csv", "time_ms,event\n0\x0b,up\n9,end\n", "line 2: time_ms is"),
        ("a.csv", "time_ms,event\n0,up\u2028\n9,end\n", "line 2: event is"),
        ("a.csv", "time,event\n0001-01-01T00:00:00+14:00,up\n", "line 2: time is"),
        ("a.json", '{"metadata": {"gap_seconds": 60}, "data": [true, false]}', r"data\[0\] is True"),
        ("a.log", "", "must end in"),
    ],
)
def test_other_files_are_refused_with_their_place(tmp_path, name, text, message):
    with pytest.raises(SpotLogError, match=message):
        read_spot_log(written(tmp_path, name, text))


def test_absent_file():
    with pytest.raises(SpotLogError, match="cannot be read"):
        read_spot_log("absent.json")
