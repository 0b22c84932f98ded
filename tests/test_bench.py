import json

from orbittrace_data.cli import bench, run


def test_scaling_is_measured_drawn_and_written(tmp_path, capfd):
    out = tmp_path / "figures"
    assert run(["bench", "--subject", "scaling", "--quick", "--out", str(out)]) == 0
    text = capfd.readouterr().out
    assert "### Contacts, over satellites" in text
    assert "### Whole builds, written and digested" in text
    figures = json.loads((out / "figures.json").read_text())
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
