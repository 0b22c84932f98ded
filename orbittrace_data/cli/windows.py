"""``orbittrace windows``: anyone's satellite in one line."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .app import app
from .elements import CATALOG, MIRROR, tell

if TYPE_CHECKING:
    from ..builders.element_set import ElementSet
    from ..builders.shadow import ShadowModel
    from ..power_model import PowerModel
    from ..trace import Trace

_CHUNK = 100
_OLD_DAYS = 14


@app.command()
def windows(
    satellite: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_CATALOG_NUMBER",
            help="Element sets in any format, a snapshot, - for input; or 25544.",
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            help="ISO 8601; by default now for a number, the day after the newest epoch for a file."
        ),
    ] = None,
    days: Annotated[float, typer.Option(help="Length of the span.")] = 7,
    min_sunlight: Annotated[
        float, typer.Option(help="Visible share of the Sun's disc at a gap's boundary, in (0, 1].")
    ] = 0.5,
    power: Annotated[
        str | None,
        typer.Option(help="When the payload of this power system can run: a TOML file, or cubesat-6u, ..."),
    ] = None,
    catalog: CATALOG = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print a row for each window and gap.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ical: Annotated[bool, typer.Option("--ical", help="Print an iCalendar file.")] = False,
    url: MIRROR = None,
) -> None:
    """Print the windows (sunlit) and gaps (in shadow) of satellites, from a file or fresh from CelesTrak.

    With --power, windows and gaps are those of a payload that runs while its battery allows.
    """
    from ..builders.satellite_trace import next_day_ms, span_of_days
    from ..builders.shadow import ShadowModel
    from ..errors import InputError
    from ..power_model import PowerModel

    if csv + json + ical > 1:
        raise InputError("choose one of --csv, --json and --ical")
    model, span_ms = ShadowModel(min_sunlight=min_sunlight), span_of_days(days)
    battery = None if power is None else PowerModel.read(power)
    element_sets, fetched = _element_sets(satellite, url)
    element_sets = _chosen(element_sets, catalog)
    if start is not None:
        from .release import parse_instant

        start_ms = parse_instant(start)
    elif fetched:
        import time

        start_ms = int(time.time()) * 1000
    else:
        start_ms = next_day_ms(max(e.epoch_us for e in element_sets))
    traces = _traces(element_sets, start_ms, span_ms, model, battery)
    if csv:
        sys.stdout.write(csv_text(traces))
    elif json:
        sys.stdout.write(json_text(traces, model, battery))
    elif ical:
        from ..icalendar import to_icalendar

        words = ("sunlit", "in shadow") if battery is None else ("payload can run", "payload off")
        sys.stdout.buffer.write(to_icalendar(traces, words).encode())
        sys.stdout.buffer.flush()
    else:
        print_tables(traces)


def _element_sets(satellite: str, url: str | None) -> tuple[list["ElementSet"], bool]:
    """Read a file or a snapshot's folder, or fetch a number; tell whether it was fetched."""
    from ..builders.fetch import CELESTRAK_URL, fetch_satellites
    from ..builders.gp import GpError, read_element_sets
    from ..builders.snapshot import read_snapshot

    if satellite != "-" and not os.path.exists(satellite):  # noqa: PTH110 - False for a name that no system can hold
        if not satellite.isdecimal():
            raise GpError(f"{satellite} is neither a file that exists nor a catalogue number")
        answer = fetch_satellites([int(satellite)], url=url or CELESTRAK_URL)
        tell(answer.notes)
        return list(answer.reading.element_sets), True
    if Path(satellite).is_dir():
        return list(read_snapshot(Path(satellite)).element_sets), False
    reading = read_element_sets(satellite)
    tell(reading.notes, reading.problems)
    if not reading.element_sets:
        raise GpError(f"{satellite} holds no good record: {reading.problems[0]}")
    return list(reading.element_sets), False


def _chosen(element_sets: list["ElementSet"], catalog: list[int] | None) -> list["ElementSet"]:
    from ..builders.gp import GpError

    if not catalog:
        return element_sets
    missing = sorted(set(catalog) - {e.catalog_number for e in element_sets})
    if missing:
        raise GpError(
            f"there is no element set of {', '.join(map(str, missing))} among the {len(element_sets)}"
        )
    return [e for e in element_sets if e.catalog_number in catalog]


def _traces(
    element_sets: list["ElementSet"],
    start_ms: int,
    span_ms: int,
    model: "ShadowModel",
    battery: "PowerModel | None",
) -> list["Trace"]:
    """Make the traces of those that SGP4 can follow to the end, and say which it cannot."""
    from contextlib import nullcontext

    from ..builders.contacts import find_shadows
    from ..builders.energy_table import energy_traces
    from ..builders.recipe import staleness
    from ..builders.satellite_trace import PropagationError, require_known, satellite_traces
    from ..progress import progress
    from ..trace import DAY_MS

    traces: list[Trace] = []
    lost: list[str] = []
    long = len(element_sets) > _CHUNK
    with (
        progress("windows", len(element_sets), "satellites")
        if long
        else nullcontext(lambda n: None) as advance
    ):
        for first in range(0, len(element_sets), _CHUNK):
            chunk = element_sets[first : first + _CHUNK]
            shadows = find_shadows(chunk, start_ms, span_ms, model)
            known = [e for e, until in zip(chunk, shadows.known_until_ms, strict=True) if until >= span_ms]
            if len(known) < len(chunk):
                for one in chunk:
                    if one not in known:
                        try:
                            require_known([one], find_shadows([one], start_ms, span_ms, model), span_ms)
                        except PropagationError as error:
                            lost.append(str(error))
                shadows = find_shadows(known, start_ms, span_ms, model)
            sunlit = satellite_traces(known, shadows, start_ms, span_ms, model)
            traces += sunlit if battery is None else energy_traces(sunlit, shadows, battery)
            advance(len(chunk))
    if not traces:
        raise PropagationError(lost[0])
    old = [
        f"the elements of {trace.name} are {abs(trace.orbit.element_age_ms) / DAY_MS:.0f} days from the start: "
        f"{staleness(abs(trace.orbit.element_age_ms) / DAY_MS)}"
        for trace in traces
        if trace.orbit and abs(trace.orbit.element_age_ms) > _OLD_DAYS * DAY_MS
    ]
    tell(tuple(lost), tuple(old))
    return traces


def _rows(trace: "Trace") -> list[tuple[bool, int, int]]:
    """Give windows and gaps in order."""
    rows = [(True, a, b) for a, b in trace.windows.tolist()] + [(False, a, b) for a, b in trace.gaps.tolist()]
    return sorted(rows, key=lambda row: row[1])


def _instant(trace: "Trace", ms: int) -> str:
    from datetime import timedelta

    if trace.start is None:
        return ""
    return (
        (trace.start + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def csv_text(traces: list["Trace"]) -> str:
    """Write a row for each window and gap, in the columns of a release's intervals."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ("trace_id", "catalog_number", "name", "available", "start_ms", "stop_ms", "start", "stop")
    writer.writerow(columns)
    for trace in traces:
        number = trace.orbit.catalog_number if trace.orbit else ""
        for available, start_ms, stop_ms in _rows(trace):
            instants = (_instant(trace, start_ms), _instant(trace, stop_ms))
            word = "true" if available else "false"
            writer.writerow((trace.trace_id, number, trace.name, word, start_ms, stop_ms, *instants))
    return text.getvalue()


def json_text(traces: list["Trace"], model: "ShadowModel", battery: "PowerModel | None") -> str:
    """Write the span, the model and each satellite with its windows and gaps [ms from the start]."""
    import json
    from dataclasses import asdict

    satellites = [
        {
            "trace_id": trace.trace_id,
            "catalog_number": trace.orbit.catalog_number if trace.orbit else None,
            "object_id": trace.orbit.object_id if trace.orbit else "",
            "name": trace.name,
            "regime": trace.regime,
            "epoch": trace.orbit.epoch.isoformat().replace("+00:00", "Z") if trace.orbit else None,
            "duty_cycle": round(trace.duty_cycle, 9),
            "windows_ms": trace.windows.tolist(),
            "gaps_ms": trace.gaps.tolist(),
        }
        for trace in traces
    ]
    whole = {
        "start": _instant(traces[0], 0),
        "span_ms": traces[0].span_ms,
        "model": asdict(model),
        "power": None if battery is None else asdict(battery),
        "satellites": satellites,
    }
    return json.dumps(whole) + "\n"


def print_tables(traces: list["Trace"]) -> None:
    """Print a table for each satellite."""
    from rich.table import Table

    from .app import wide_console

    console = wide_console()
    for trace in traces:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for title, justify in (
            ("", "left"),
            ("from (UTC)", "left"),
            ("to (UTC)", "left"),
            ("minutes", "right"),
        ):
            table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type] - literals of rich
        for available, start_ms, stop_ms in _rows(trace):
            times = [_instant(trace, ms)[:21].replace("T", " ") for ms in (start_ms, stop_ms)]
            kind = "window" if available else "gap"
            table.add_row(
                kind, *times, f"{(stop_ms - start_ms) / 60_000:.2f}", style=None if available else "dim"
            )
        epoch = f", elements of {trace.orbit.epoch:%Y-%m-%d %H:%M}" if trace.orbit else ""
        gaps = f"{trace.gap_count} gap{'s' * (trace.gap_count != 1)}" if trace.gap_count else "no gap"
        facts = (
            f"{gaps}, duty cycle {trace.duty_cycle:.4f}, longest gap {trace.longest_gap_ms / 60_000:.1f} min"
        )
        console.print(f"{trace.name} ({trace.trace_id}{epoch}): {facts}", markup=False, soft_wrap=True)
        console.print(table)
