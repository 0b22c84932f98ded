import numpy as np
import pytest

from orbittrace_data import load_trace
from orbittrace_data.charge_plot import plot_charge
from orbittrace_data.cli import run
from orbittrace_data.power_model import PowerModel
from orbittrace_data.trace_spec import energy_trace_of


def test_the_picture_shows_the_charge_and_every_gap():
    energy, profile = energy_trace_of("geo-31306", "compute-2kw")
    figure = plot_charge(energy, profile, PowerModel.read("compute-2kw"), load_trace("geo-31306"))
    whole = figure.axes[0]
    line = next(line for line in whole.lines if line.get_label() == "state of charge")
    days, soc = line.get_data()
    assert np.allclose(soc, profile.at(np.round(np.array(days) * 86_400_000)), atol=1e-6)
    bars = next(c for c in whole.collections if c.get_label() == "gap: payload off")
    assert len(bars.get_paths()) == energy.gap_count == 14


def test_show_prints_and_draws_the_energy_trace(capsys, tmp_path):
    assert run(["show", "leo-43613", "--power", "cubesat-6u"]) == 0
    text = capsys.readouterr().out
    assert "leo-43613@cubesat-6u" in text
    assert "Wh from the panel" in text
    picture = tmp_path / "charge.png"
    assert run(["show", "leo-43613", "--power", "cubesat-6u", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_show_takes_every_kind_of_trace(capsys):
    assert run(["show", "duty:60m/35m"]) == 0
    assert "duty-3600s-2100s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leo-43613", "--power", "absent.toml"], "neither a readable file"),
        (["duty:60m/35m", "--power", "cubesat-6u"], "has no shadows"),
        (["sleep:1s/1s"], "names no trace"),
    ],
)
def test_show_refuses_in_one_sentence(capsys, arguments, message):
    assert run(["show", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
