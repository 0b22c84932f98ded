"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere, on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLAIN_LINE_EVERY_S = 10.0


@contextmanager
def progress(what: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Show how far a loop is.

    Parameters
    ----------
    what : str
        What is being done, for example ``"contacts"``.
    total : int
        How many units there are in all.
    unit : str
        What is counted, for example ``"satellites"``.

    Yields
    ------
    callable
        ``advance(n)``: n more units are done.
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"{unit} {{task.fields[rate]}}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, rate="")

            def advance(n: int) -> None:
                bar.advance(task, n)
                speed = bar.tasks[0].speed
                if speed:
                    bar.update(task, rate=f"{speed:,.3g}/s")

            yield advance
        return

    done, began = 0, time.monotonic()
    said = began

    def advance(n: int) -> None:
        nonlocal done, said
        done += n
        now = time.monotonic()
        if now - said >= PLAIN_LINE_EVERY_S:
            said = now
            rate = max(done, 1) / (now - began)
            left = f"{rate:.3g}/s, about {(total - done) / rate:.0f} s left"
            print(f"{what}: {done}/{total} {unit}, {left}", file=sys.stderr, flush=True)

    yield advance
