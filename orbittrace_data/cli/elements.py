"""``orbittrace fetch`` and ``freeze``: element sets from CelesTrak, and snapshots of them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .app import app

CATALOG = Annotated[list[int] | None, typer.Option(help="A catalogue number; may be given more than once.")]
MIRROR = Annotated[str | None, typer.Option(help="Another address that answers as gp.php does.")]


@app.command()
def fetch(
    catalog: CATALOG = None,
    group: Annotated[str | None, typer.Option(help="One of CelesTrak's groups, such as gps-ops.")] = None,
    name: Annotated[str | None, typer.Option(help="A part of the satellites' names.")] = None,
    format: Annotated[str, typer.Option(help="csv, json, xml, kvn, tle or 2le.")] = "csv",
    out: Annotated[Path | None, typer.Option(help="The file to write; by default standard output.")] = None,
    url: MIRROR = None,
) -> None:
    """Get fresh element sets from CelesTrak: each question once in two hours, whoever asks it."""
    from ..atomic import write_bytes
    from ..builders.fetch import CELESTRAK_URL, Query, QueryError, fetch_satellites
    from ..builders.fetch import fetch as ask

    if sum(bool(wanted) for wanted in (catalog, group, name)) != 1:
        raise QueryError("say what to fetch with one of --catalog, --group and --name")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise QueryError(f"{out} cannot be written: give a file in a folder that exists")
    address = url or CELESTRAK_URL
    if catalog:
        answer = fetch_satellites(catalog, format, address)
    elif group:
        answer = ask(Query("GROUP", group, format, address))
    else:
        answer = ask(Query("NAME", name or "", format, address))
    tell(answer.notes, answer.reading.notes, answer.reading.problems)
    if out is None:
        sys.stdout.buffer.write(answer.content)
        sys.stdout.buffer.flush()
        return
    write_bytes(out, answer.content)
    print(f"wrote {out}: {len(answer.reading.element_sets)} satellites, retrieved {answer.retrieved}")


@app.command()
def freeze(
    file: Annotated[Path, typer.Argument(help="Element sets in any format, or - for input.")],
    out: Annotated[Path, typer.Option(help="The snapshot folder to make, for example tle_snapshots/NAME.")],
    source: Annotated[
        str | None, typer.Option(help="Where they come from; known for what orbittrace fetch wrote.")
    ] = None,
    retrieved: Annotated[
        str | None, typer.Option(help="When, as an ISO date or instant; known likewise.")
    ] = None,
    licence_notice: Annotated[
        str | None, typer.Option(help="The terms that go with them; for CelesTrak's there is a default.")
    ] = None,
    citation: Annotated[
        str | None, typer.Option(help="How to cite them; for CelesTrak's there is a default.")
    ] = None,
) -> None:
    """Make a snapshot of a file of element sets, byte for byte: whole or not at all, never over another."""
    from ..builders.freeze import freeze_file

    snapshot = freeze_file(file, out, source, retrieved, licence_notice, citation)
    print(f"froze {out}: {len(snapshot.element_sets)} satellites, digest {snapshot.digest}")


def tell(*notes_and_problems: tuple[object, ...]) -> None:
    """Say on stderr what a person should know of a reading."""
    for some in notes_and_problems:
        for one in some[:10]:
            print(f"note: {one}", file=sys.stderr)
        if len(some) > 10:
            print(f"note: and {len(some) - 10} more", file=sys.stderr)
