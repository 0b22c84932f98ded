import pytest

from orbittrace_data import load_table, load_trace
from orbittrace_data.cli import run
from orbittrace_data.energy import energy_trace
from orbittrace_data.errors import InputError
from orbittrace_data.forecast import shift_contacts
from orbittrace_data.power_model import PowerModel
from orbittrace_data.schedules import duty_cycle_trace, periodic_pause_trace, power_cap_trace
from orbittrace_data.trace import Trace
from orbittrace_data.trace_spec import TraceSpecError, resolve_trace


def test_schedules_by_their_short_text():
    assert resolve_trace("duty:60m/35m") == duty_cycle_trace(3600, 2100)
    assert resolve_trace("duty:1.5h/250ms") == duty_cycle_trace(5400, 0.25)
    assert resolve_trace("pause:10s/2s") == periodic_pause_trace(10, 2)
    cap = power_cap_trace([("17:00", "21:00"), ("23:00", "01:00")], "Europe/Berlin", "2026-03-25", 14)
    assert resolve_trace("cap:Europe/Berlin,17:00-21:00,23:00-01:00,2026-03-25,14d") == cap


def test_files_by_what_they_hold(tmp_path):
    own = tmp_path / "own.csv"
    own.write_text("start_ms,stop_ms\n10,20\n50,60\n")
    assert resolve_trace(str(own)) == Trace.from_csv(own)
    events = tmp_path / "events.csv"
    events.write_text("time_s,event\n0,up\n1,down\n2,end\n")
    assert resolve_trace(str(events)).gaps.tolist() == [[1000, 2000]]
    spot = tmp_path / "spot.json"
    spot.write_text('{"metadata": {"gap_seconds": 1}, "data": [0, 1]}')
    assert resolve_trace(str(spot)).gaps.tolist() == [[1000, 2000]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("duty:60m", "two durations"),
        ("duty:60/35", "no duration"),
        ("pause:-1s/2s", "no duration"),
        ("sleep:60m/35m", "names no trace"),
        ("", "names no trace"),
        ("absent.csv", "there is no file"),
        ("cap:Europe/Berlin,17:00-21:00,14d", "needs a zone"),
        ("cap:Europe/Berlin,17:00,2026-03-25,14d", "no span of hours"),
        ("leo-25544~20s#-1", "'-1' in 'leo-25544~20s#-1' is no number of a draw: write 0 or more"),
        ("leo-25544~20s#3x", "is no number of a draw"),
        ("leo-25544~20s#" + "9" * 5000, "is no number of a draw"),
        ("leo-25544~20s#٣", "is no number of a draw"),
        ("leo-25544~#3", "'' in 'leo-25544~#3' is no duration"),
        ("leo-25544~20s", "names no trace"),
        ("leo-25544#3", "names no trace"),
        ("~20s#3", "names no trace"),
        ("duty:٣m/1m", "no duration"),
        ("duty:" + "9" * 5000 + "s/1s", "no duration"),
        ("leo-25544@", "names no trace"),
        ("@cubesat-6u", "names no trace"),
        ("power.toml", "names no trace"),
        (25544, "25544 names no trace: give a text"),
    ],
)
def test_other_texts_are_refused_with_what_is_allowed(spec, message):
    with pytest.raises(TraceSpecError, match=message):
        resolve_trace(spec)


def test_errors_of_what_is_named_come_through():
    with pytest.raises(InputError, match="whole milliseconds and at least one, got 0 s"):
        resolve_trace("duty:0s/5s")
    with pytest.raises(InputError, match="at most 73 years, got 86400000000000 s"):
        resolve_trace("duty:1000000000d/5s")
    with pytest.raises(InputError, match="a date such as 2026-03-25, got '2026-02-30'"):
        resolve_trace("cap:Europe/Berlin,17:00-21:00,2026-02-30,14d")
    with pytest.raises(InputError, match="14 days from 9999-12-31 end after the year 9999"):
        resolve_trace("cap:Europe/Berlin,17:00-21:00,9999-12-31,14d")


@pytest.mark.parametrize(
    "trace_id", ["duty:60m/35m", "leo-25544~20s#3", "leo-25544@cubesat-6u", "own.csv", "a/b"]
)
def test_a_power_system_needs_a_satellites_shadows(trace_id, capsys):
    assert run(["show", trace_id, "--power", "cubesat-6u"]) == 2
    error = capsys.readouterr().err
    assert f"{trace_id!r} has no shadows that a power system could run on" in error
    assert error.count("\n") == 1


def test_released_traces_and_their_energy_traces(tmp_path):
    assert resolve_trace("leo-26958") == load_trace("leo-26958")
    power = tmp_path / "mine.toml"
    power.write_text("[power]\npanel_w = 20\nbattery_wh = 10\nload_w = 15\nidle_w = 2\n")
    energy = resolve_trace(f"leo-26958@{power}")
    assert energy == energy_trace(load_trace("leo-26958"), load_table("shadows"), PowerModel.read(power))[0]
    assert energy.trace_id == "leo-26958@mine"
    with pytest.raises(InputError, match="did you mean"):
        resolve_trace("leo-2554")
    with pytest.raises(InputError, match="cubesat-6u"):
        resolve_trace("leo-26958@absent.toml")


def test_any_of_them_with_its_contacts_off():
    off = resolve_trace("duty:60m/35m~20s#3")
    assert off == shift_contacts(duty_cycle_trace(3600, 2100), 20, 3)
    assert resolve_trace("leo-26958~1.5s#0") == shift_contacts(load_trace("leo-26958"), 1.5, 0)
    with pytest.raises(TraceSpecError, match="no duration"):
        resolve_trace("leo-26958~20#0")
