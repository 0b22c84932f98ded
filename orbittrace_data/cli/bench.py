"""``orbittrace bench``: the speed of this package on this machine, against its peers and over size."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from .app import app

CHECKOUT = Path(__file__).resolve().parents[2]
SUBJECTS = ("peers", "scaling")


@app.command()
def bench(
    source: Annotated[
        str | None, typer.Argument(help="A file of element sets or a snapshot; by default a bundled one.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="peers (needs the extra bench) or scaling; by default both.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write figures and plots; by default a dated folder.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, once: does it run?")] = False,
) -> None:
    """Measure speed against peers, and how builds scale over satellites, days and workers (in a checkout)."""
    from ..errors import FailedError, InputError

    if subject not in (None, *SUBJECTS):
        raise InputError(f"subject must be one of {', '.join(SUBJECTS)}, got {subject!r}")
    subjects = SUBJECTS if subject is None else (subject,)
    scripts = [CHECKOUT / "benchmarks" / f"{name}.py" for name in subjects]
    scripts = [script for script in scripts if script.is_file()]
    if not scripts:
        raise InputError(
            "the benchmarks are no part of the installed package: run this in a checkout of its repository, where they "
            "lie in benchmarks/"
        )
    options = [*([source] if source else []), *(["--quick"] if quick else [])]
    options += ["--out", str(out.absolute())] if out else []
    paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    for script in scripts:
        sys.stdout.flush()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run([sys.executable, str(script), *options], env=environment, check=False)
        if done.returncode:
            raise FailedError(f"{script} ended with {done.returncode}: see what it says above")
