import pytest

from orbittrace_data import Trace, load_trace
from orbittrace_data.errors import InputError
from orbittrace_data.schedules import power_cap_trace
from orbittrace_data.timeline import plot_timeline, plot_timelines, save_figure, terminal_day

HOUR_MS = 3_600_000


def test_a_day_is_six_lines_and_blocks_are_windows():
    trace = Trace("demo", 24 * HOUR_MS, [[0, 4 * HOUR_MS], [5 * HOUR_MS, 6 * HOUR_MS]])
    lines = terminal_day(trace, width=8)
    assert len(lines) == 6
    assert lines[0] == "  0 h |        |"
    assert lines[1] == "  4 h |██  ████|"


def test_a_short_span_is_drawn_to_its_end():
    assert len(terminal_day(Trace("demo", 5 * HOUR_MS, []))) == 2


def test_the_same_picture_has_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        save_figure(plot_timeline(load_trace("geo-28912")), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_bar_is_drawn_for_every_gap():
    trace = load_trace("leo-25544").crop(0, 24 * HOUR_MS)
    axis = plot_timelines([trace]).axes[0]
    drawn = [len(collection.get_paths()) for collection in axis.collections]
    assert drawn == [1, trace.gap_count]


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.png, \.svg or \.pdf"):
        save_figure(plot_timeline(Trace("demo", HOUR_MS, [])), tmp_path / "a.gif")


def test_the_hours_count_from_where_the_trace_starts():
    berlin = power_cap_trace([("17:00", "21:00")], "Europe/Berlin", "2026-01-05", 2)
    assert plot_timeline(berlin).axes[0].get_xlabel() == "hours from 23:00:00 UTC"
    utc = power_cap_trace([("17:00", "21:00")], "UTC", "2026-01-05", 2)
    assert plot_timeline(utc).axes[0].get_xlabel() == "hour of the day, UTC"


def test_a_day_is_drawn_to_the_end_of_the_trace_and_no_further():
    hour = 3_600_000
    assert terminal_day(Trace("five hours", 5 * hour, [[hour, 2 * hour]]), width=8) == [
        "  0 h |██  ████|",
        "  4 h |██|",
    ]
    assert terminal_day(Trace("12 s", 12_000, [[10_000, 12_000]]), width=6) == ["  0 h |█████ |"]
