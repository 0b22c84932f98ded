import pytest

from orbittrace_data import load_table, load_trace
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
    ],
)
def test_other_texts_are_refused_with_what_is_allowed(spec, message):
    with pytest.raises(TraceSpecError, match=message):
        resolve_trace(spec)


def test_errors_of_what_is_named_come_through():
    with pytest.raises(InputError, match="whole milliseconds"):
        resolve_trace("duty:0s/5s")


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
