"""Real restarts: each window is a process that is killed, and the next one resumes from disk.

The supervisor starts a child, which trains up to a gap, saves, says so and waits. Then the supervisor
sends it SIGKILL, as a loss of power would, and starts the next child. Everything that is not in the
checkpoint is gone. Where the plan says that a forecast missed, the power goes before the save.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ..errors import FailedError
from ..plan import NS_PER_S, Plan
from . import checkpoint
from .clocks import VirtualClock
from .config import Config
from .loop import Result, train
from .methods import Gap
from .run_folder import opened, read_config, read_result, write_result


class ChildError(FailedError):
    """A training process that ended by itself before its run did."""


def train_with_restarts(
    config: Config,
    folder: Path,
    *,
    rebase: bool = False,
    on_step: Callable[[int], None] | None = None,
    on_restart: Callable[[int, float], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result | None:
    """Train a run in one process a window, each ended by SIGKILL.

    Parameters
    ----------
    config : Config
        Its task and method given by name, so that a child can make them.
    folder : Path
        The run's folder.
    rebase, on_step, should_stop
        As in `loop.train`.
    on_restart : callable, optional
        Called with the step and the following gap's length [s] at each kill.

    Returns
    -------
    Result or None
        None if the run was stopped.

    Raises
    ------
    ChildError
        If a child ended by itself.
    """
    config.to_json()  # refuse what another process could not make again
    folder.mkdir(parents=True, exist_ok=True)
    window = window_to_live(config.plan, folder)
    while True:
        with Child(folder, window, rebase) as child:
            for said in child.messages(should_stop):
                if "done" in said:
                    break
                if "gap" in said:
                    child.kill()
                    if on_restart is not None:
                        on_restart(said["gap"], int(config.plan.gap_ns[window + 1]) / NS_PER_S)
                elif on_step is not None:
                    on_step(said["step"])
            if child.ended_well():
                result = read_result(folder, config)
                if result is None and not should_stop():
                    raise ChildError(f"{folder}: the training process ended without a result")
                return result
        rebase = False
        window += 1


def window_to_live(plan: Plan, folder: Path) -> int:
    """Return the first window that a run in a folder has not lived through."""
    saved = checkpoint.checkpoints(folder / "checkpoints")
    step = min(checkpoint.step_of(saved[-1]), plan.steps - 1) if saved else 0
    # Of several windows that begin with one step, all but the last are lost: they come first.
    return int(np.searchsorted(plan.first_step, plan.first_step[plan.window_of(step)]))


class Child:
    """One training process and what it says."""

    def __init__(self, folder: Path, window: int, rebase: bool):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        command = [sys.executable, "-m", "orbittrace_data.trainers.restart", str(folder), str(window)]
        # A session of its own: Ctrl-C reaches the supervisor alone, which asks the child to save.
        self.process = subprocess.Popen(
            command + ["--rebase"] * rebase,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._killed = self._asked = False

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def messages(self, should_stop: Callable[[], bool]):
        """Yield what the child says, a dict a line; pass a wish to stop on to it."""
        assert self.process.stdout is not None
        over = threading.Event()

        def pass_on() -> None:
            while not over.wait(0.1):
                if should_stop():
                    self._asked = True
                    self.process.terminate()
                    return

        watcher = threading.Thread(target=pass_on, daemon=True)
        watcher.start()
        try:
            for line in self.process.stdout:
                yield json.loads(line)
        finally:
            over.set()
            watcher.join()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._killed = True
        self.process.kill()

    def ended_well(self) -> bool:
        """Return whether the child finished or was stopped, and not killed at a gap.

        Raises
        ------
        ChildError
            If it failed, with the end of what it said.
        """
        code = self.process.wait()
        if self._killed:
            return False
        if code == -signal.SIGTERM and self._asked:  # asked to stop before it could listen
            return True
        if code != 0:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
            raise ChildError(f"the training process {how}: {lines[-1] if lines else 'it said nothing'}")
        return True


def child_main(arguments: list[str]) -> int:
    """Train one window of a folder's run, and wait at its end to be killed."""
    from ..errors import OrbitTraceError

    folder, window, parent, stop = Path(arguments[0]), int(arguments[1]), os.getppid(), threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)

    def say(**message: Any) -> None:
        print(json.dumps(message), flush=True)

    def at_gap(gap: Gap) -> None:
        power_goes(gap.step)

    def power_goes(step: int) -> None:
        say(gap=step)
        while not stop.wait(0.5) and os.getppid() == parent:
            pass

    try:
        config = read_config(folder)
        plan = config.plan
        lost_at = -1  # the last step before the power goes unannounced, its save included
        if plan.lost_count[window]:
            lost_at = int(plan.first_step[window] + plan.step_count[window])

        def on_step(step: int) -> None:
            say(step=step)
            if step == lost_at:
                power_goes(step)

        with opened(folder, config):
            result = train(
                config,
                folder,
                clock=VirtualClock(plan, window),
                rebase="--rebase" in arguments,
                at_gap=at_gap,
                on_step=on_step,
                should_stop=lambda: stop.is_set() or os.getppid() != parent,
            )
            if result.finished:
                write_result(folder, result)
    except OrbitTraceError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    say(done=result.steps)
    return 0


if __name__ == "__main__":
    sys.exit(child_main(sys.argv[1:]))
