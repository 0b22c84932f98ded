import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from orbittrace_data import Trace
from orbittrace_data.cli import run as orbittrace
from orbittrace_data.cli.train import duration
from orbittrace_data.trainers import restart
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.loop import train
from orbittrace_data.trainers.run_folder import (
    RunFolderError,
    opened,
    read_config,
    read_result,
    run_name,
    write_result,
)

ROOT = Path(__file__).parent.parent
ORBIT = Trace("orbit", 92 * 60_000, [[57 * 60_000, 92 * 60_000]])
SMALL = """
    import torch
    from orbittrace_data.trainers.order import sample_ids
    from orbittrace_data.trainers.tasks import Task

    POINTS = torch.randn(10, 6, generator=torch.Generator().manual_seed(5))

    def make():
        return Task(
            "own",
            lambda: torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)),
            lambda seed, step: POINTS[torch.from_numpy(sample_ids(seed, step, 4, 10))],
            lambda model, x: model(x).square().mean(),
            lambda model: {"validation_loss": float(model(POINTS).square().mean())},
            steps=9,
            step_s=1000,
        )
"""
KILL_AT_EVERY_POINT = """
    import os, shutil, signal, sys, warnings
    from pathlib import Path
    from orbittrace_data import Trace
    from orbittrace_data.trainers import checkpoint
    from orbittrace_data.trainers.config import Config
    from orbittrace_data.trainers.loop import train

    config = Config("small_task_of_a_test:make", Trace("t", 9_000_000, [[3_500_000, 9_000_000]]))
    whole = train(config).state_sha256

    def killed_at(point, folder):
        \"\"\"Train in a fork that gets SIGKILL right before its point-th touch of the disk.\"\"\"
        child = os.fork()
        if child == 0:
            touched = [0]

            def counted(function):
                def call(*args, **options):
                    touched[0] += 1
                    if touched[0] == point:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*args, **options)
                return call

            os.fsync, os.truncate = counted(os.fsync), counted(os.truncate)
            Path.rename, shutil.rmtree = counted(Path.rename), counted(shutil.rmtree)
            checkpoint.write_safetensors = counted(checkpoint.write_safetensors)
            train(config, folder, keep=1)
            os._exit(0)
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])

    point = 1
    while killed_at(point, folder := Path(sys.argv[1], str(point))):
        warnings.simplefilter("error")  # no broken checkpoint is ever found
        assert train(config, folder).state_sha256 == whole, point
        point += 1
    print(point - 1)
"""


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Return a function that runs Python on a script, with the small task at hand."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "small_task_of_a_test.py").write_text(textwrap.dedent(SMALL))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(modules), os.environ["PYTHONPATH"]]))
    monkeypatch.syspath_prepend(modules)

    def start(script, *arguments):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(script))
        return subprocess.run(
            [sys.executable, str(path), *arguments], capture_output=True, text=True, timeout=200
        )

    return start


def test_a_kill_before_any_touch_of_the_disk_loses_nothing(python, tmp_path):
    done = python(KILL_AT_EVERY_POINT, str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30  # three saves with their files, renames, fsyncs and rotations


def test_real_kills_at_every_gap_change_no_bit(python, tmp_path):
    config = Config("small_task_of_a_test:make", ORBIT)
    folder = tmp_path / "run"
    with opened(folder, config):
        pass
    restarts, steps = [], []
    result = restart.train_with_restarts(
        config,
        folder,
        on_step=steps.append,
        on_restart=lambda step, gap_s: restarts.append((step, gap_s)),
    )
    whole = train(Config("small_task_of_a_test:make", ORBIT, "uninterrupted"))
    assert restarts == [(3, 2100.0), (6, 2100.0)]
    assert steps == list(range(1, 10))
    assert result.state_sha256 == whole.state_sha256
    assert result.log["loss"].equals(whole.log["loss"])
    assert result.measures == whole.measures


def test_a_child_that_fails_says_why(python, tmp_path):
    config = Config("small_task_of_a_test:make", ORBIT, device="no-such-device")
    with opened(tmp_path / "run", config):
        pass
    with pytest.raises(restart.ChildError, match=r"failed with exit code 2: device 'no-such-device'"):
        restart.train_with_restarts(config, tmp_path / "run")


def test_ctrl_c_saves_and_the_same_command_resumes(tmp_path, monkeypatch, capsys):
    command = ["train", "--trace", "duty:60m/35m", "--task", "resnet-mnist", "--steps", "60"]
    command += ["--step-s", "100", "--save-every", "2", "--out", str(tmp_path)]
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    child = subprocess.Popen(
        [sys.executable, "-m", "orbittrace_data", *command], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGINT)
    said = child.communicate(timeout=120)[1]
    assert child.returncode == 130, said
    assert "run the same command again to resume" in said
    assert orbittrace(command) == 0
    first = capsys.readouterr().out
    assert "after 60 steps, 1 gap, " in first
    folder = next(tmp_path.iterdir())
    result = read_result(folder, read_config(folder))
    whole = train(Config("resnet-mnist", ORBIT, "uninterrupted", steps=60, save_every=2))
    assert result.state_sha256 == whole.state_sha256
    assert result.log["loss"].equals(whole.log["loss"])
    assert orbittrace(command) == 0  # finished: it is not trained again
    assert capsys.readouterr().out == first


def test_a_broken_newest_checkpoint_is_said_in_a_sentence_and_costs_no_bit(tmp_path, capsys):
    command = ["train", "--trace", "duty:60m/35m", "--task", "resnet-mnist", "--steps", "8"]
    command += ["--step-s", "900", "--save-every", "1", "--out", str(tmp_path)]
    assert orbittrace(command) == 0
    first = capsys.readouterr().out
    folder = next(tmp_path.iterdir())
    (folder / "result.json").unlink()
    newest = max((folder / "checkpoints").glob("step-*"))
    with (newest / "model.safetensors").open("ab") as file:
        file.write(b"x")
    assert orbittrace(command) == 0
    said = capsys.readouterr()
    assert said.out == first
    assert f"resuming in {folder}, which was saved after step 8\n" in said.err
    assert f"warning: checkpoint {newest} is broken: model.safetensors has the checksum" in said.err
    assert "checkpoint.newest(" not in said.err


def test_a_folder_serves_one_process_at_a_time_and_knows_its_run(tmp_path):
    config = Config("resnet-mnist", ORBIT, steps=2, step_s=900)
    with opened(tmp_path, config):
        second = opened(tmp_path, config)
        with pytest.raises(RunFolderError, match="another process trains into"):
            second.__enter__()
    assert read_config(tmp_path).digest == config.digest
    assert read_result(tmp_path, config) is None
    result = train(config, tmp_path)
    write_result(tmp_path, result)
    again = read_result(tmp_path, config)
    assert (again.measures, again.state_sha256) == (result.measures, result.state_sha256)
    assert again.log.equals(result.log)
    assert read_result(tmp_path, Config("resnet-mnist", ORBIT, steps=3, step_s=900)) is None
    with pytest.raises(RunFolderError, match="holds no run"):
        read_config(tmp_path / "absent")


def test_a_run_in_real_time_says_what_happened_and_not_its_plan(tmp_path, capsys):
    command = ["train", "--trace", "pause:0.2s/0.1s", "--task", "resnet-mnist", "--steps", "60"]
    command += ["--step-s", "0.1", "--real-time", "now", "--out", str(tmp_path)]
    assert orbittrace(command) == 0
    said = capsys.readouterr()
    (folder,) = tmp_path.iterdir()
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    gaps, wall_ns = rows[-1]["window"], rows[-1]["wall_ns"] - rows[0]["wall_ns"]
    assert f"after 60 steps, {gaps} gap{'s' * (gaps != 1)}, {duration(wall_ns / 1e9)} wall-clock" in said.out
    assert gaps >= 1
    assert wall_ns >= gaps * 0.1e9
    assert orbittrace(command) == 0  # finished: the same line again
    assert capsys.readouterr().out == said.out


def test_names_of_run_folders_are_safe():
    own = Trace("../../etc", 1000, [])
    name = run_name(Config("resnet-mnist", own, "weak+clock", steps=2, step_s=0.1))
    assert name.startswith("resnet-mnist-.._.._etc-weak+clock-seed0-")
    assert "/" not in name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--restart", "thread"], "--restart is none or process"),
        (["--restart", "process", "--real-time", "now"], "leave one out"),
        (["--drift-at", "ten"], "--drift-at takes steps such as 100,200"),
        (["--method", "stronger"], "unknown method 'stronger'"),
        (["--task", "gpt3"], "unknown task 'gpt3'"),
        (["--persists", "half"], "persists is one of"),
        (["--precision", "fp8"], "precision is fp32, bf16 or fp16"),
        (["--real-time", "dates"], "tied to no date"),
        (["--real-time", "never"], "anchored to 'now' or 'dates'"),
        (["--step-s", "4000"], "can never finish"),
        (["--lr", "inf"], "lr must be a positive number, got inf"),
        (["--lr", "-1"], "lr must be a positive number, got -1.0"),
        (["--warmup", "2"], "warmup is a share of the run in [0, 1], got 2.0"),
        (["--device", "nonsense"], "device 'nonsense' cannot be used here (Expected one of cpu, cuda"),
        (["--device", "cuda:99"], "device 'cuda:99' cannot be used here ("),
        (["--method", "json:dumps"], "json:dumps must be a function that takes nothing and returns a Method"),
        (
            ["--task", "json:dumps"],
            "json:dumps must be a function that needs no arguments and returns a Task",
        ),
        (["--task", "json:decoder"], "json:decoder must be a function"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(options, message, tmp_path, capsys):
    command = ["train", "--trace", "duty:60m/35m", "--task", "resnet-mnist", "--out", str(tmp_path)]
    assert orbittrace(command + options) == 2
    assert message in capsys.readouterr().err


TWO_PROCESSES = """
    import sys
    from pathlib import Path
    import torch
    from orbittrace_data import Trace
    from orbittrace_data.trainers import parallel
    from orbittrace_data.trainers.config import Config
    from orbittrace_data.trainers.loop import train

    orbit = Trace("orbit", 92 * 60_000, [[57 * 60_000, 92 * 60_000]])
    folder = Path(sys.argv[1])

    def run(method, folder=None, stop_at=None):
        done = [0]
        result = train(
            Config("small_task_of_a_test:make", orbit, method),
            folder,
            on_step=lambda step: done.__setitem__(0, step),
            should_stop=lambda: done[0] == stop_at,
        )
        return result.state_sha256, result.log["loss"].to_pylist()[-5:]

    torch.distributed.init_process_group("gloo")
    whole = run("uninterrupted")
    assert run("strong") == whole
    assert run("strong", folder, stop_at=4) != whole
    assert run("strong", folder) == whole
    everyone = parallel.gather({"bits": whole[0], "rank": parallel.rank()})
    assert [one["bits"] for one in everyone] == [whole[0]] * 2
    if parallel.rank() == 0:
        print("equal", whole[0], flush=True)
    parallel.leave()
    # Threads of gloo that outlive the group make the interpreter abort now and then as it ends.
    alive = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    assert not [name for name in alive if "gloo" in name], alive
"""


def test_two_processes_under_torchrun_are_strong_bit_for_bit(python, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script = tmp_path / "two.py"
    script.write_text(textwrap.dedent(TWO_PROCESSES))
    torchrun = "from torch.distributed.run import main; import sys; main(sys.argv[1:])"
    done = python(torchrun, "--standalone", "--nproc-per-node=2", str(script), str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said[0] == "equal"
    assert said[1] != train(Config("small_task_of_a_test:make", ORBIT)).state_sha256  # two see other data


def test_the_result_of_a_run_in_real_time_is_what_happened(tmp_path, capsys):
    arguments = (
        "train --task resnet-mnist --trace pause:30s/2s --step-s 10 --margin-s 1 --steps 6 --real-time now"
    )
    for _ in range(2):  # as it ends, and as it is found again
        assert orbittrace([*arguments.split(), "--out", str(tmp_path)]) == 0
        said = capsys.readouterr()
        assert (
            "after 6 steps, 0 gaps, " in said.out
        )  # six steps take seconds, not the minute that was planned
        assert "min wall-clock" not in said.out
