"""What ``orbittrace advise`` says of forecasts that miss; what it says of gaps is in test_advise."""

import re

import pytest

from orbittrace_data.cli import run

CASE = ["advise", "--trace", "duty:60m/35m", "--step-s", "60", "--state-gb", "20", "--disk-gb-s", "1"]


def test_margins_are_tried_and_the_formulas_stand_beside_them(capsys, tmp_path):
    picture = tmp_path / "advice.svg"
    options = ["--courses", "2", "--sigma", "20s", "--mtbf", "6h", "--plot", str(picture)]
    assert run([*CASE, *options]) == 0
    text = capsys.readouterr().out
    assert "Under strong, duty-3600s-2100s costs" in text
    assert (
        "contacts off by 20s (1 sigma) and outages of 10m every 6h; means over 2 courses of 7.06 days" in text
    )
    assert "Young 15.5 min, Daly 15.3 min between saves" in text
    assert b"<svg" in picture.read_bytes()


def test_the_best_margin_is_the_least_that_covers_every_course(capsys):
    """Two courses, early and late by 0.674 sigma: of the margins in half sigmas, one sigma is the least that does."""
    fast = ["--step-s", "1", "--courses", "2", "--sigma", "40s"]  # a window has no room left over
    assert run([*CASE, *fast]) == 0
    text = capsys.readouterr().out
    assert re.search(
        r"Best of \d+ choices, each carried out to its end: a margin of 40 s, saves before gaps only", text
    )
    rows = [line.split() for line in text.splitlines() if re.match(r" *\d+ ", line)]
    assert [float(row[0]) for row in rows] == [0, 20, 40, 60, 80, 120, 160]
    margins, lost = ([float(row[column].rstrip("%")) for row in rows] for column in (-3, -2))
    assert margins == sorted(margins)
    assert all(lost[:2])
    assert not any(lost[2:])
    assert "Young" not in text  # nothing is random


def test_without_misses_there_is_no_table(capsys):
    assert run(CASE) == 0
    assert "margin" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sigma", "fast"], "'fast' in '--sigma' is no duration"),
        (["--sigma", "-5s"], "is no duration"),
        (["--mtbf", "0s"], "must be more than 0s"),
        (["--mtbf", "6h", "--repair", "0s"], "must be more than 0s"),
        (["--sigma", "5s", "--courses", "0"], "at least 1"),
        (["--sigma", "5s", "--courses", "1001"], "at most 1000"),
        (["--sigma", "5s", "--apart", "--seed", "-1"], "seed must be a whole number of at least 0"),
        (["--plot", "x.png"], "give --sigma or --mtbf"),
        (["--apart"], "give --sigma or --mtbf"),
        (["--sigma", "5s", "--plot", "x.bmp"], "written as .png, .svg or .pdf"),
        (["--sigma", "5s", "--plot", "no/such/x.png"], "does not exist: make it first"),
    ],
)
def test_what_it_refuses_in_one_sentence(capsys, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert run([*CASE, *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
