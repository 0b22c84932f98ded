"""``orbittrace forecast`` and ``margin``: how far predicted gaps miss, and what to do about it."""

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
    from ..builders.satellite_trace import next_day_ms, trace_from_elements
    from ..errors import InputError
    from ..forecast import find_misses
    from ..progress import progress
    from .app import wide_console

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
    with progress("forecasts", len(shared), "satellites") as advance:
        for number in shared:
            before, after = sets[0][number], sets[1][number]
            if before.epoch_us > after.epoch_us:
                raise InputError(f"satellite {number}: {old} is newer than {new}: give the older file first")
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            first = (
                start.replace(tzinfo=UTC)
                if start
                else epoch + timedelta(milliseconds=next_day_ms(after.epoch_us))
            )
            predicted, actual = (trace_from_elements(e, first, days) for e in (before, after))
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
            advance(1)
    if plot is not None:
        from ..forecast_plot import plot_misses
        from ..timeline import save_figure

        age = (after.epoch_us - before.epoch_us) / 86_400e6
        title = f"{after.catalog_number} {after.name}: gaps from elements older by {age:.1f} days, from {first:%Y-%m-%d} UTC"
        save_figure(plot_misses(misses, title), plot)
    wide_console().print(table)
    print("margin: what would have saved before each gap that was forecast; late below 0 is early")
    if plot is not None:
        print(f"wrote {plot}")


@app.command()
def margin(
    trace: Annotated[str, typer.Argument(help="The forecast: leo-25544, duty:60m/35m, ..., or a file.")],
    steps: Annotated[int, typer.Option(help="Training steps.")] = 10_000,
    step: Annotated[str, typer.Option(help="Duration of a step.")] = "60s",
    save: Annotated[str, typer.Option(help="Duration of a save.")] = "20s",
    restore: Annotated[str, typer.Option(help="Duration of a restore.")] = "20s",
    sigma: Annotated[str, typer.Option(help="Standard deviation of the contacts' errors.")] = "30s",
    apart: Annotated[bool, typer.Option(help="Each contact errs by itself, not all alike.")] = False,
    mtbf: Annotated[
        str | None, typer.Option(help="Mean time between random outages; none by default.")
    ] = None,
    repair: Annotated[str, typer.Option(help="Duration of a random outage.")] = "10m",
    draws: Annotated[int, typer.Option(help="Courses of events to average over.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the first draw.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the picture of the choices to a PNG, SVG or PDF.")
    ] = None,
) -> None:
    """Find the best margin and checkpoint interval for a forecast that may miss, by trying them."""
    from rich.table import Table

    from .. import advice
    from ..errors import InputError
    from ..forecast import shift_contacts, with_outages
    from ..trace_spec import duration_s, resolve_trace
    from .app import wide_console

    predicted = resolve_trace(trace)
    step_s, save_s, restore_s, sigma_s = (duration_s(text, text) for text in (step, save, restore, sigma))
    if draws < 1:
        raise InputError(f"--draws must be at least 1, got {draws}")
    actuals = [shift_contacts(predicted, sigma_s, seed + i, together=not apart) for i in range(draws)]
    mean_window_s = predicted.active_total_ms / 1000 / max(1, len(predicted.windows))
    yardstick_s = mean_window_s / 4
    if mtbf is not None:
        mtbf_s, repair_s = duration_s(mtbf, mtbf), duration_s(repair, repair)
        actuals = [with_outages(actual, mtbf_s, repair_s, seed + i) for i, actual in enumerate(actuals)]
        yardstick_s = advice.young_s(float(save_s), float(mtbf_s))
    intervals = {max(1, round(yardstick_s * factor / float(step_s))) for factor in (0.25, 0.5, 1, 2, 4)}
    choices = advice.advise(
        predicted,
        actuals,
        steps,
        step_s=step_s,
        save_s=save_s,
        restore_s=restore_s,
        margins_s=[sigma_s * factor for factor in (0, 0.5, 1, 1.5, 2, 3, 4)] if sigma_s else [0],
        save_every=[None, *sorted(intervals)],
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("margin s", "save every", "overhead", "worst", "steps run again"):
        table.add_column(name, justify="right", no_wrap=True)
    for choice in choices[:10]:
        every = (
            f"{choice.save_every} steps, {choice.save_every * float(step_s) / 60:.3g} min"
            if choice.save_every
            else "gap"
        )
        table.add_row(
            f"{choice.margin_ns / 1e9:g}",
            every,
            f"{choice.overhead:.3%}",
            f"{choice.worst_overhead:.3%}",
            f"{choice.lost_steps:.1f}",
        )
    wide_console().print(table)
    print(
        f"{predicted.trace_id}: the best of {len(choices)} choices that end, over {draws} courses of events"
    )
    if mtbf is not None:
        print(
            f"for random outages alone, without gaps: Young {advice.young_s(float(save_s), float(mtbf_s)) / 60:.3g} min, "
            f"Daly {advice.daly_s(float(save_s), float(mtbf_s)) / 60:.3g} min"
        )
    if plot is not None:
        from ..forecast_plot import plot_choices
        from ..timeline import save_figure

        outages = f"; outages every {mtbf}" if mtbf else ""
        title = f"{steps} steps of {step} on {predicted.trace_id}; contacts off by {sigma} (1 sigma){outages}"
        save_figure(plot_choices(choices, round(step_s * 1_000_000_000), title), plot)
        print(f"wrote {plot}")


def _seconds(late_ms) -> tuple[str, str, str]:
    import numpy as np

    if not len(late_ms):
        return "-", "-", "-"
    median, least, most = (
        f"{value / 1000:.3f}" for value in (np.median(late_ms), late_ms.min(), late_ms.max())
    )
    return median, least, most
