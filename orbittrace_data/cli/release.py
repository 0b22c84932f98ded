"""``orbittrace build``, ``verify`` and ``diff``: making releases, proving and comparing them."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from .app import app

WORKERS = Annotated[int | None, typer.Option(help="Processes; by default one for each processor.")]


@app.command()
def build(
    snapshot: Annotated[
        str, typer.Option(help="A bundled snapshot's name, a snapshot folder, or a file of element sets.")
    ] = "2024-09-22",
    out: Annotated[
        Path, typer.Option(help="The folder to write; an OrbitTrace release there is replaced.")
    ] = Path("orbittrace"),
    start: Annotated[
        str | None,
        typer.Option(help="ISO 8601; by default 0 h UTC of the day after the newest epoch of what is built."),
    ] = None,
    days: Annotated[float, typer.Option(help="Length of the traces.")] = 14,
    min_sunlight: Annotated[
        float, typer.Option(help="Visible share of the Sun's disc at a gap's boundary, in (0, 1].")
    ] = 0.5,
    select: Annotated[Path | None, typer.Option(help="A selection file of one's own (TOML).")] = None,
    catalog: Annotated[
        list[int] | None, typer.Option(help="A catalogue number; may be given more than once.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every satellite of the snapshot.")] = False,
    power: Annotated[
        str | None,
        typer.Option(help="Add energy traces under this power system: a TOML file, or cubesat-6u, ..."),
    ] = None,
    data_version: Annotated[
        str | None,
        typer.Option(help="Of a derived release, by default 0.1.0; or an older one of the benchmark."),
    ] = None,
    workers: WORKERS = None,
    engine: Annotated[str, typer.Option(help="local, or ray (needs the extra ray).")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; by default one is started here.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the build of --out that was interrupted.")
    ] = False,
) -> None:
    """Build a release: the benchmark's 50 traces by default, or derived ones from anything else."""
    from ..builders.catalogue import Crew, summary
    from ..builders.recipe import make_recipe
    from ..builders.release import build_release
    from ..builders.workers import available_cpus
    from ..power_model import PowerModel

    crew = Crew(available_cpus() if workers is None else workers, engine, address)  # type: ignore[arg-type] - Crew checks the engine's name

    recipe, remarks = make_recipe(
        snapshot,
        start_ms=None if start is None else parse_instant(start),
        days=days,
        min_sunlight=min_sunlight,
        select=select,
        catalog=tuple(catalog or ()),
        everything=all_,
        version=data_version,
        power=None if power is None else PowerModel.read(power),
    )
    for remark in remarks:
        print(f"note: {remark}", file=sys.stderr)
    manifest = build_release(recipe, out, crew=crew, resume=resume)
    for line in summary(manifest.notes.get("left_out", [])):
        print(f"note: {line}", file=sys.stderr)
    print(f"wrote {out}: {manifest.trace_count} traces, data version {manifest.label}")
    print(f"content sha256 {manifest.content_digest}")


@app.command()
def verify(
    source: Annotated[
        str | None, typer.Argument(help="A release folder or a Hub id; by default the bundled release.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="The data version that is wanted.")] = None,
    workers: WORKERS = None,
) -> None:
    """Check every digest of a release, rebuild it and compare rows and schema."""
    from ..builders.catalogue import Crew
    from ..builders.verify import verify_release
    from ..builders.workers import available_cpus

    result = verify_release(source, version, Crew(available_cpus() if workers is None else workers))
    print(
        f"{source or 'the bundled release'} holds: {result.files} files, {result.rows:,} rows, "
        f"rebuilt from {result.rebuilt_from} without a difference"
    )


@app.command()
def diff(
    a: Annotated[str, typer.Argument(help="A release folder, a Hub id, or 'bundled'.")],
    b: Annotated[str, typer.Argument(help="The other one.")],
) -> None:
    """Compare two releases trace by trace: contacts that moved, gaps that appeared or went."""
    from rich.table import Table

    from ..builders.diff import diff_releases
    from ..loader import load_traces
    from .app import wide_console

    of_a = load_traces(source=None if a == "bundled" else a)
    of_b = load_traces(source=None if b == "bundled" else b)
    result = diff_releases(of_a, of_b)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in (
        "trace",
        "duty A",
        "duty B",
        "gaps A",
        "gaps B",
        "appeared",
        "vanished",
        "median shift",
        "largest shift",
    ):
        table.add_column(name, justify="left" if name == "trace" else "right", no_wrap=True)
    for one in result.traces:
        moved = (
            (
                str(one.appeared),
                str(one.vanished),
                f"{one.median_shift_ms / 1000:.3f} s",
                f"{one.max_shift_ms / 1000:.3f} s",
            )
            if one.same_dates
            else ("-", "-", "-", "-")
        )
        table.add_row(
            one.trace_id,
            f"{one.duty_cycle_a:.4f}",
            f"{one.duty_cycle_b:.4f}",
            str(one.gaps_a),
            str(one.gaps_b),
            *moved,
        )
    console = wide_console()
    console.print(table)
    if any(not one.same_dates for one in result.traces):
        print("The releases share no dates: contacts are not paired, only duty cycles and counts compare.")
    for name, ids in (("A", result.only_a), ("B", result.only_b)):
        if ids:
            print(f"only in {name}: {', '.join(ids)}")


def parse_instant(text: str) -> int:
    """Read an ISO 8601 instant as Unix milliseconds; a date alone is 0 h UTC."""
    from ..errors import InputError

    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is no ISO 8601 time: write it like 2024-09-23T00:00:00Z") from None
    if instant.tzinfo is None:
        if len(text) > len("2024-09-23"):
            raise InputError(f"{text!r} has no time zone: add Z for UTC") from None
        instant = instant.replace(tzinfo=UTC)
    milliseconds = round(instant.timestamp() * 1000)
    return milliseconds
