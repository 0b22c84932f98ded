"""Kill training processes at random moments, and see whether the run ends with the bits of one without gaps.

Run ``python benchmarks/kills.py``. For each CPU task a process trains under leo-25544 and saves at each gap and
after every second step; at a random moment after its first step it gets SIGKILL, in mid-save included, and the next
process resumes from disk. After 15 kills the run is left to end. Its weights, optimizer state and losses must be
those of an uninterrupted run.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from orbittrace_data import load_trace
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.loop import train
from orbittrace_data.trainers.run_folder import opened, read_result

KILLS = 15
LONGEST_S = 2.0
STEPS = {"gpt2-tiny": 240, "resnet-mnist": 240}
CHILD = """
import sys
from pathlib import Path
from orbittrace_data.trainers.loop import train
from orbittrace_data.trainers.run_folder import opened, read_config, write_result
folder = Path(sys.argv[1])
config = read_config(folder)
with opened(folder, config):
    write_result(folder, train(config, folder, on_step=lambda step: print(step, flush=True)))
"""


def kill_randomly(folder: Path, moments: random.Random) -> dict[str, int]:
    """Start, kill and resume until there were enough kills, then let the run end."""
    seen = {"kills": 0, "in mid-save": 0}
    command = [sys.executable, "-W", "error", "-c", CHILD, str(folder)]
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            if seen["kills"] < KILLS:
                time.sleep(moments.uniform(0, LONGEST_S))
                child.kill()
            while os.read(child.stdout.fileno(), 65536):  # so that it never waits for a reader
                pass
        if child.returncode == 0:
            return seen
        if child.returncode != -9:
            raise SystemExit(f"the training process failed with {child.returncode}")
        seen["kills"] += 1
        seen["in mid-save"] += any((folder / "checkpoints").glob(".step-*.orbittrace-building"))


def main() -> None:
    """Print the table in Markdown."""
    trace, moments = load_trace("leo-25544"), random.Random(0)
    print("| task | steps | kills | in mid-save | equal to uninterrupted |\n|---|---|---|---|---|")
    for name, steps in STEPS.items():
        config = Config(name, trace, steps=steps, save_every=2)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "run")
            with opened(folder, config):
                pass
            seen = kill_randomly(folder, moments)
            killed = read_result(folder, config)
        assert killed is not None
        whole = train(replace(config, method="uninterrupted"))
        equal = killed.state_sha256 == whole.state_sha256 and killed.log["loss"].equals(whole.log["loss"])
        assert equal, f"{name}: the bits differ"
        print(f"| {name} | {steps} | {seen['kills']} | {seen['in mid-save']} | bit for bit |", flush=True)


if __name__ == "__main__":
    main()
