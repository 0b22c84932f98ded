import json
from importlib.util import find_spec

from orbittrace_data.cli import bench, run


def test_scaling_is_measured_drawn_and_written(tmp_path, capfd):
    out = tmp_path / "figures"
    assert run(["bench", "--subject", "scaling", "--quick", "--out", str(out)]) == 0
    text = capfd.readouterr().out
    assert "### Contacts, over satellites" in text
    assert "### Whole builds, written and digested" in text
    figures = json.loads((out / "scaling.json").read_text())
    assert figures["machine"]["processors"] >= 1
    for at, repeats in figures["satellites"].items():
        for one in repeats:
            assert one["satellites"] == int(at)
            assert one["cpu_s"] > one["floor_s"] > 0  # no contact comes without an evaluation
            assert one["contacts"] > 20 * one["satellites"]  # six a revolution in a low orbit
    assert all(one["peak_mb"] > 50 and one["bytes"] > 1e5 for one in figures["builds"])
    assert (out / "scaling.svg").read_text().startswith("<?xml")


def test_outside_a_checkout_it_says_where_the_benchmarks_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    assert run(["bench"]) == 2
    assert "run this in a checkout of its repository" in capsys.readouterr().err
    assert run(["bench", "--subject", "colour"]) == 2
    assert "subject must be one of peers, scaling, got 'colour'" in capsys.readouterr().err


def test_peers_are_measured_or_their_extra_is_named(tmp_path, capfd):
    code = run(["bench", "--subject", "peers", "--quick", "--out", str(tmp_path)])
    text = capfd.readouterr()
    if not all(map(find_spec, ("satkit", "orbit_predictor", "skyfield", "skyfield_data"))):
        assert code == 1
        assert "the peers need the extra bench" in text.err
        assert "pip install 'orbittrace-data[bench]'" in text.err
        return
    assert code == 0
    figures = json.loads((tmp_path / "peers.json").read_text())
    for name in ("skyfield", "satkit", "orbit-predictor", "plain scan"):
        assert f"| {name} |" in text.out
        one = figures["3 low satellites"][name]
        assert one["cpu_s"][0] > 0
        assert one["boundaries"] > 60  # two a revolution
        assert one["disagreement_s"]["median"] < (3 if name == "orbit-predictor" else 0.1)
