import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_study import AS_TOML, SMALL

from orbittrace_data.cli import run as orbittrace
from orbittrace_data.errors import InputError
from orbittrace_data.trainers.methods import Method
from orbittrace_data.trainers.protocol import violations
from orbittrace_data.trainers.records import OUTCOME, RecordsError, read_rows, rows_digest, write_rows
from orbittrace_data.trainers.runner import (
    RunnerError,
    execute,
    local_engine,
    places,
    ray_engine,
    run_all,
    run_study,
)
from orbittrace_data.trainers.study import report_runs, study_from, tuning_runs

ONE = places("cpu", 1)


def serial(configs):
    yield from enumerate(map(execute, configs))


def quiet(line):
    pass


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    return out, run_study(study_from(SMALL), out, serial, quiet)


def test_a_study_runs_and_keeps_to_its_protocol(finished):
    out, rows = finished
    assert len(rows) == 4 + 8
    assert violations(rows) == []
    assert rows_digest(read_rows([out])) == rows_digest(rows)
    for row in rows:
        folder = out / "runs" / row["config"][:24]
        assert json.loads((folder / "config.json").read_text())["seed"] == row["seed"]
        log = pq.read_table(folder / "log.parquet")
        assert len(log) == 12
        assert row["curve_loss"] == log["loss"].to_pylist()
        assert row["evaluated_step"] == [6, 12]
        assert len(row["gap_start_s"]) == row["gaps"] == log["window"][-1].as_py()


def test_strong_has_the_bits_of_uninterrupted(finished):
    rows = {
        (r["method"], r["seed"]): r
        for r in finished[1]
        if r["stage"] == "report" and r["seed"] == r["order_seed"]
    }
    for seed in (0, 1):
        assert rows["strong", seed]["gaps"] > 1
        assert rows["strong", seed]["state_sha256"] == rows["uninterrupted", seed]["state_sha256"]
        assert rows["weak", seed]["state_sha256"] != rows["strong", seed]["state_sha256"]


def test_a_finished_study_runs_nothing_again(finished):
    out, rows = finished

    def nothing(configs):
        assert not configs
        return iter(())

    again = run_study(study_from(SMALL), out, nothing, quiet)
    assert rows_digest(again) == rows_digest(rows)


def test_another_study_takes_over_what_it_shares(finished):
    out, rows = finished
    asked = []

    def counting(configs):
        asked.extend(configs)
        yield from serial(configs)

    study = study_from(
        SMALL | {"name": "longer", "block": [SMALL["block"][0] | {"seeds": [0, 1, 2], "orders": [0]}]}
    )
    more = run_all(
        report_runs(study, {key_of_strong(): chosen(rows)}), study.name, out, counting, "more", quiet
    )
    assert [c["seed"] for c in asked] == [2]
    assert {row["study"] for row in more} == {"longer"}


def key_of_strong():
    return ("resnet-mnist", "strong", "all", False, "leo-44714")


def chosen(rows):
    return next(r["lr_factor"] for r in rows if r["stage"] == "report" and r["method"] == "strong")


def test_real_processes_give_the_same_bits_and_a_dying_one_fails_alone(finished, tmp_path):
    blocks = [
        *SMALL["block"],
        {
            "tasks": ["resnet-mnist"],
            "methods": ["test_runner:deadly"],
            "traces": ["leo-25544"],
            "seeds": [0, 1],
        },
    ]
    study = study_from(SMALL | {"block": blocks})
    tune = [run for run in tuning_runs(study) if run.key[1] != "weak"]
    notes = []
    rows = run_all(tune, study.name, tmp_path, local_engine(ONE * 2), "tuning", notes.append)
    died = [row for row in rows if row["error"]]
    assert {row["method"] for row in died} == {"deadly"}
    assert len(died) == 2
    assert died[0]["error"] == "its process ended with exit code 7"
    assert sum("failed: resnet-mnist, deadly" in note for note in notes) == 2
    before = {row["config"]: row for row in finished[1]}
    alive = [row for row in rows if not row["error"]]
    assert len(alive) == 2
    for row in alive:
        assert row["state_sha256"] == before[row["config"]]["state_sha256"]
        assert row["curve_loss"] == before[row["config"]]["curve_loss"]
    assert len(list((tmp_path / "runs").glob("*.failed.txt"))) == 2


def deadly() -> Method:
    return Method("deadly", after_gap=die)


def die(gap, model, optimizer):
    os._exit(7)


def failing() -> Method:
    return Method("failing", after_gap=raise_error)


def raise_error(gap, model, optimizer):
    raise ArithmeticError(f"no way after {gap.delta} steps")


def test_an_error_is_a_row_and_its_traceback_a_file(tmp_path):
    blocks = [SMALL["block"][1] | {"methods": ["strong", "test_runner:failing"]}]
    study = study_from(SMALL | {"block": blocks})
    run = next(run for run in tuning_runs(study) if run.key[1] == "failing")
    (row,) = run_all([run], study.name, tmp_path, serial, "tuning", quiet)
    assert row["error"].startswith("ArithmeticError: no way after")
    assert "raise_error" in next((tmp_path / "runs").glob("*.failed.txt")).read_text()
    write_rows(tmp_path / "rows.parquet", [row])
    assert read_rows([tmp_path]) == [row]


def test_each_worker_keeps_to_its_core():
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system cannot pin processes")
    from orbittrace_data.trainers.runner import _start

    pipe, process, pin = _start(ONE[0])
    for _ in range(600):
        if os.sched_getaffinity(process.pid) == {int(pin.split()[1])}:
            break
        time.sleep(0.05)
    assert os.sched_getaffinity(process.pid) == {int(pin.split()[1])}
    pipe.close()
    process.join(60)
    assert process.exitcode == 0


def test_results_that_contradict_each_other_are_refused(finished, tmp_path):
    out, rows = finished
    forged = [dict(rows[0], validation_loss=0.0)]
    write_rows(tmp_path / "rows.parquet", forged)
    with pytest.raises(RecordsError, match="another result here"):
        read_rows([out, tmp_path])
    elsewhere = dict(forged[0], fingerprint='{"device": "other", "torch": "2.13.0"}')
    write_rows(tmp_path / "rows.parquet", [elsewhere])
    assert len(read_rows([out, tmp_path])) == len(rows) + 1


def test_a_failure_gives_way_to_a_success(finished, tmp_path):
    out, rows = finished
    failed = dict(rows[0], error="no", **dict.fromkeys(OUTCOME))
    write_rows(tmp_path / "rows.parquet", [failed])
    assert rows_digest(read_rows([tmp_path, out])) == rows_digest(rows)


def test_a_newer_data_release_takes_nothing_from_finished_runs(finished, tmp_path):
    # A config names its gaps, so a run under the same trace of a later release is the same run.
    out, rows = finished
    older = [row | {"release": row["release"] and "0.9.0"} for row in rows]
    write_rows(tmp_path / "rows.parquet", older)
    assert len(read_rows([tmp_path, out])) == len(rows)
    kept = tmp_path / "kept"
    shutil.copytree(out, kept)
    for path in (kept / "runs").glob("*/row.json"):
        row = json.loads(path.read_text())
        path.write_text(json.dumps(row | {"release": row["release"] and "0.9.0"}))
    again = run_study(study_from(SMALL), kept, serial, quiet)
    assert rows_digest(again) == rows_digest(older)


def test_folders_without_results_are_refused(tmp_path):
    with pytest.raises(RecordsError, match="holds no results"):
        read_rows([tmp_path])
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordsError, match="cannot be read"):
        read_rows([tmp_path])


def test_places_are_limited():
    with pytest.raises(RunnerError, match="--workers must lie in"):
        places("cpu", 10_000)
    with pytest.raises(RunnerError, match="this machine has none"):
        places("cuda")


def test_ray_is_an_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"orbittrace-data\[ray\]"):
        run_study(study_from(SMALL), tmp_path, ray_engine(), quiet)


def test_a_cluster_that_is_not_there_or_has_no_gpu_is_said(tmp_path, capsys):
    pytest.importorskip("ray", reason="needs the extra ray")
    (tmp_path / "gpu.toml").write_text(
        AS_TOML.replace('name = "small"', 'name = "small"\ndevice = "cuda"', 1)
    )
    command = ["compare", "--study", str(tmp_path / "gpu.toml"), "--out", str(tmp_path / "out"), "--engine"]
    assert orbittrace([*command, "ray", "--address", "127.0.0.1:9"]) == 1
    assert "there is no Ray cluster at 127.0.0.1:9 (" in capsys.readouterr().err
    assert orbittrace([*command, "local", "--address", "127.0.0.1:9"]) == 2
    assert "--address goes with --engine ray" in capsys.readouterr().err
    assert orbittrace([*command, "ray", "--workers", "1"]) == 2
    assert "the study runs on cuda, and the Ray cluster has no GPU" in capsys.readouterr().err


RAY_AND_A_DEATH = """
import sys
from pathlib import Path
from test_runner import SMALL, quiet
from orbittrace_data.trainers.protocol import choose
from orbittrace_data.trainers.records import read_rows, write_rows
from orbittrace_data.trainers.runner import ray_engine, run_all
from orbittrace_data.trainers.study import report_runs, study_from, tuning_runs

local, out = map(Path, sys.argv[1:])
study = study_from(SMALL)
block = {"tasks": ["resnet-mnist"], "methods": ["test_runner:deadly"], "traces": ["leo-25544"], "seeds": [0]}
deadly = tuning_runs(study_from(SMALL | {"block": [block]}))[:1]
runs = deadly + tuning_runs(study) + report_runs(study, choose(read_rows([local])))
write_rows(out / "rows.parquet", run_all(runs, study.name, out, ray_engine(cpus=2), "runs", quiet))
"""


def test_a_ray_cluster_gives_the_same_bits_and_a_dying_run_fails_alone(finished, tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([here, str(Path(here).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", RAY_AND_A_DEATH, str(finished[0]), str(tmp_path)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = read_rows([tmp_path])
    (died,) = [row for row in rows if row["error"]]
    assert died["method"] == "deadly"
    assert "Crashed" in died["error"]
    assert rows_digest(row for row in rows if not row["error"]) == rows_digest(finished[1])


@pytest.mark.parametrize("damage", ["cut", "emptied", "removed"])
def test_a_damaged_run_is_done_again(finished, tmp_path, damage):
    out, rows = finished
    shutil.copytree(out, tmp_path / "out")
    record = next((tmp_path / "out" / "runs").glob("*/row.json"))
    if damage == "removed":
        record.unlink()
    else:
        record.write_bytes(record.read_bytes()[: 100 * (damage == "cut")])
    asked, notes = [], []

    def counted(configs):
        asked.extend(configs)
        yield from serial(configs)

    again = run_study(study_from(SMALL), tmp_path / "out", counted, notes.append)
    assert len(asked) == 1
    assert [f"{record.parent} is broken" in line for line in notes].count(True) == 1
    assert rows_digest(again) == rows_digest(rows)


def test_one_comparison_works_in_a_folder(tmp_path):
    def nested(configs):
        with pytest.raises(RunnerError, match="another comparison is at work in"):
            run_study(study_from(SMALL), tmp_path, serial, quiet)
        yield from serial(configs)

    assert len(run_study(study_from(SMALL), tmp_path, nested, quiet)) == 12
