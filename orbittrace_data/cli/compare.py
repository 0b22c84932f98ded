"""``orbittrace compare``: is availability-aware training worth it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .app import app, find_own_modules


@app.command()
def compare(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="With --report: result folders to merge.")
    ] = None,
    study: Annotated[str | None, typer.Option(help="quick, paper, or a TOML file.")] = None,
    scale: Annotated[str | None, typer.Option(help="Of paper: cpu (the default) or gpu.")] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing: merge result folders into a report.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Result folder; a study that was stopped goes on in it.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="One's own method, module:function, compared with the study's.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local: this machine's cores or GPUs; ray: a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a running Ray cluster; without it, one is started on this machine.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time on this machine; by default one a core.")
    ] = None,
    unprotected: Annotated[
        bool, typer.Option("--unprotected", help="Report although the protocol is broken, and say so.")
    ] = False,
) -> None:
    """Run methods, tasks, traces and seeds by one protocol, and write an honest report."""
    from ..errors import InputError
    from ..trainers.records import read_rows

    if report == (study is not None):
        raise InputError("give either --study quick|paper|FILE.toml, or --report and result folders")
    if report:
        if not folders or out is None or method or scale:
            raise InputError("--report takes result folders and --out: compare --report DIR... --out DIR")
        _report(read_rows(folders), out, unprotected)
        return
    if folders:
        raise InputError(
            f"a study takes no folders, got {', '.join(map(str, folders))}: give --out, or --report"
        )

    try:
        from ..trainers.runner import local_engine, places, ray_engine, run_study
        from ..trainers.study import read_study
    except ModuleNotFoundError as missing:
        raise InputError(f"training needs {missing.name}: pip install 'orbittrace-data[trainers]'") from None

    if engine not in ("local", "ray"):
        raise InputError(f"--engine is local or ray, got {engine!r}")
    if address is not None and (engine != "ray" or workers is not None):
        raise InputError(
            "--address goes with --engine ray, and not with --workers: the cluster says how many"
        )
    find_own_modules()
    assert study is not None
    plan = read_study(study, scale)
    for spec in method or []:
        plan = plan.with_method(spec)
    out = out or Path("results") / plan.name
    run = ray_engine(address, workers) if engine == "ray" else local_engine(places(plan.device, workers))
    try:
        rows = run_study(plan, out, run, _note, unprotected=unprotected)
    except KeyboardInterrupt:
        print(f"stopped: the same command goes on in {out}", file=sys.stderr)
        raise
    _report(rows, out, unprotected)


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(rows, out: Path, unprotected: bool) -> None:
    """Check, write and print."""
    from ..trainers.protocol import ProtocolError, violations
    from ..trainers.report import answer, write_report

    broken = violations(rows)
    if broken and not unprotected:
        raise ProtocolError(broken)
    found = write_report(rows, out, broken)
    print(answer(found))
    print(f"wrote {out / 'report.html'}, summary.md and verdicts.json")
