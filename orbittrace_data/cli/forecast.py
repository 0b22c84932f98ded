"""``orbittrace forecast``: how far the gaps that older element sets predict miss."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from .app import app


@app.command()
def forecast(
    old: Annotated[Path, typer.Argument(help="Older element sets: the forecast (TLE or OMM).")],
    new: Annotated[Path, typer.Argument(help="Newer ones of the same satellites: what happened.")],
    catalog: Annotated[int | None, typer.Option(help="Only the satellite of this catalogue number.")] = None,
    start: Annotated[
        datetime | None, typer.Option(help="UTC; by default the day that follows the newer epoch.")
    ] = None,
    days: Annotated[float, typer.Option(help="Length of the span.")] = 7,
    plot: Annotated[
        Path | None, typer.Option(help="Write one satellite's misses to a PNG, SVG or PDF.")
    ] = None,
) -> None:
    """Compare the gaps that older element sets predict with those of newer ones."""
    from datetime import UTC, timedelta

    from rich.table import Table

    from ..builders.gp import read_element_sets
    from ..builders.satellite_trace import PropagationError, next_day_ms, trace_from_elements
    from ..errors import InputError
    from ..forecast import find_misses
    from ..progress import progress
    from ..timeline import picture_kind, save_figure
    from .app import wide_console

    if plot is not None:
        picture_kind(plot)

    sets = []
    for path in (old, new):
        reading = read_element_sets(path)
        for problem in reading.problems:
            print(f"{path}: {problem}", file=sys.stderr)
        sets.append({e.catalog_number: e for e in reading.element_sets})
    shared = sorted(number for number in sets[0] if number in sets[1] and catalog in (None, number))
    if not shared:
        raise InputError(
            f"{old} and {new} share no satellite" + (f" with number {catalog}" if catalog else "")
        )
    if plot is not None and len(shared) > 1:
        raise InputError(
            f"a picture shows one satellite, these share {len(shared)}: choose it with --catalog"
        )
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in (
        "satellite", "older by d", "gaps", "begins late s: median", "least", "most", "ends late s: median",
        "unforeseen", "absent", "margin s",
    ):  # fmt: skip
        table.add_column(name, justify="left" if name == "satellite" else "right", no_wrap=True)
    failure = None
    with progress("forecasts", len(shared), "satellites") as advance:
        for number in shared:
            advance(1)
            before, after = sets[0][number], sets[1][number]
            if before.epoch_us > after.epoch_us:
                raise InputError(f"satellite {number}: {old} is newer than {new}: give the older file first")
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            first = (
                start.replace(tzinfo=UTC)
                if start
                else epoch + timedelta(milliseconds=next_day_ms(after.epoch_us))
            )
            try:
                predicted, actual = (trace_from_elements(e, first, days) for e in (before, after))
            except PropagationError as error:
                failure = error
                print(f"left out: {error}", file=sys.stderr)
                continue
            misses = find_misses(predicted, actual)
            table.add_row(
                f"{number} {after.name}",
                f"{(after.epoch_us - before.epoch_us) / 86_400e6:.2f}",
                str(actual.gap_count),
                *_seconds(misses.start_late_ms),
                _seconds(misses.stop_late_ms)[0],
                str(len(misses.unforeseen)),
                str(len(misses.absent)),
                f"{misses.margin_ms / 1000:.3f}",
            )
    if not table.row_count and failure is not None:
        raise failure
    if plot is not None:
        from ..forecast_plot import plot_misses

        age = (after.epoch_us - before.epoch_us) / 86_400e6
        title = f"{after.catalog_number} {after.name}: gaps from elements older by {age:.1f} days, from {first:%Y-%m-%d} UTC"
        save_figure(plot_misses(misses, title), plot)
    wide_console().print(table)
    print("margin: what would have saved before each gap that was forecast; late below 0 is early")
    if plot is not None:
        print(f"wrote {plot}")


def _seconds(late_ms) -> tuple[str, str, str]:
    import numpy as np

    if not len(late_ms):
        return "-", "-", "-"
    median, least, most = (
        f"{value / 1000:.3f}" for value in (np.median(late_ms), late_ms.min(), late_ms.max())
    )
    return median, least, most
