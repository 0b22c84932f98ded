"""``orbittrace advise``: what gaps cost in one's own case, and what to do about forecasts that miss."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .app import app

if TYPE_CHECKING:
    from ..advice import Choice
    from ..trace import Trace

DAY_MS = 86_400_000


@app.command()
def advise(
    trace: Annotated[str, typer.Option(help="leo-25544, duty:60m/35m, a file: whatever `show` takes.")],
    step_s: Annotated[float, typer.Option(help="Duration of a training step, in seconds.")],
    state_gb: Annotated[float, typer.Option(help="Weights and optimizer state [GB].")],
    disk_gb_s: Annotated[float, typer.Option(help="Rate at which state is saved and restored [GB/s].")],
    cannot_persist: Annotated[
        bool,
        typer.Option("--cannot-persist", help="Only the weights can be saved, not the optimizer's state."),
    ] = False,
    sigma: Annotated[
        str | None,
        typer.Option(help="The forecast misses: standard deviation of the contacts' errors, such as 30s."),
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Each contact errs by itself, not all alike.")
    ] = False,
    mtbf: Annotated[
        str | None, typer.Option(help="Outages that no forecast holds: mean time between them, such as 12h.")
    ] = None,
    repair: Annotated[str, typer.Option(help="Duration of such an outage.")] = "10m",
    courses: Annotated[
        int, typer.Option(help="Courses of events to average over; of 20 the outermost lie at 1.96 sigma.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Of what is drawn: errors that are apart, and outages.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Write margins and intervals that were tried to a PNG, SVG or PDF.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="A release folder or a Hub id.")] = None,
) -> None:
    """Say what gaps cost one's own run, and with --sigma or --mtbf which margin and checkpoint interval pay."""
    from .. import advice
    from ..errors import InputError
    from ..timeline import picture_kind, save_figure
    from ..trace_spec import duration_s, resolve_trace
    from ..trainers.advise import advise as advise_case

    if not 1 <= courses <= 1000:
        raise InputError(f"--courses must be at least 1 and at most 1000, got {courses}")
    sigma_s = None if sigma is None else duration_s(sigma, "--sigma")
    mtbf_s = None if mtbf is None else duration_s(mtbf, "--mtbf")
    repair_s = duration_s(repair, "--repair")
    if mtbf_s == 0 or repair_s == 0:
        raise InputError("--mtbf and --repair must be more than 0s; leave --mtbf out where nothing fails")
    certain = sigma_s is None and mtbf_s is None
    if certain and (plot is not None or apart):
        raise InputError("--plot and --apart are about forecasts that miss: give --sigma or --mtbf with them")
    if plot is not None:
        picture_kind(plot)

    forecast = _long_enough(resolve_trace(trace, source=source), float(mtbf_s or 0))
    case = advise_case(forecast, step_s, state_gb, disk_gb_s, cannot_persist=cannot_persist)
    choices = []
    if not certain and case.plan is not None:
        # By Young's figure for the outages, else by the windows.
        near_s = (
            case.window_steps * step_s / 4 if mtbf_s is None else advice.young_s(case.save_s, float(mtbf_s))
        )
        intervals = {max(1, round(near_s * factor / step_s)) for factor in (0.25, 0.5, 1, 2, 4)}
        window_s = (forecast.windows[:, 1] - forecast.windows[:, 0]).max() / 1000
        margins_s = [sigma_s * factor for factor in (0, 0.5, 1, 1.5, 2, 3, 4)] if sigma_s else [0]
        choices = advice.advise(
            forecast,
            _courses(forecast, sigma_s, apart, mtbf_s, repair_s, courses, seed),
            case.plan.steps,
            step_s=step_s,
            save_s=case.save_s,
            restore_s=case.restore_s,
            margins_s=[margin_s for margin_s in margins_s if margin_s < window_s],
            save_every=[None, *sorted(intervals)],
        )
    for sentence in case.sentences():
        print(sentence)
    if case.plan is None or not choices:
        return

    misses = [f"contacts off by {sigma} (1 sigma)"] if sigma_s is not None else []
    misses += [f"outages of {repair} every {mtbf}"] if mtbf_s is not None else []
    days = forecast.span_ms / DAY_MS
    print(
        f"\nIf the forecast misses, {' and '.join(misses)}; means over {courses} courses of {days:.3g} days"
        + (f" with {courses * days * 86_400 / float(mtbf_s + repair_s):.3g} outages or so" if mtbf_s else "")
        + ":"
    )
    _print_margins(advice.best_by_margin(choices), step_s)
    best = choices[0]
    print(
        f"Best of {len(choices)} choices, each carried out to its end: a margin of {best.margin_ns / 1e9:g} s, saves "
        f"{_interval(best, step_s)}."
    )
    if mtbf_s is not None:
        print(
            f"For the outages alone, without gaps: Young {_duration(advice.young_s(case.save_s, float(mtbf_s)))}, "
            f"Daly {_duration(advice.daly_s(case.save_s, float(mtbf_s)))} between saves."
        )
    if plot is not None:
        from ..forecast_plot import plot_choices

        title = f"{case.plan.steps} steps of {step_s:g} s on {forecast.trace_id}; {', '.join(misses)}"
        save_figure(plot_choices(choices, case.plan.step_ns, title), plot)
        print(f"wrote {plot}")


def _courses(forecast, sigma_s, apart, mtbf_s, repair_s, count, seed) -> "list[Trace]":
    """Return equally likely courses of events under a forecast."""
    from ..forecast import likely_shifts, shift_contacts, with_outages

    actuals = [forecast] * count
    if sigma_s is not None and apart:
        actuals = [shift_contacts(forecast, sigma_s, seed + i, together=False) for i in range(count)]
    elif sigma_s is not None:
        actuals = likely_shifts(forecast, sigma_s, count)
    if mtbf_s is not None:
        actuals = [with_outages(actual, mtbf_s, repair_s, seed + i) for i, actual in enumerate(actuals)]
    return actuals


def _long_enough(trace: "Trace", mtbf_s: float) -> "Trace":
    """Repeat a short trace, such as one period of a duty cycle: a week or 200 gaps, and 10 outages where it may be."""
    gaps = max(1, trace.gap_count)
    times = min(7 * DAY_MS / trace.span_ms, 200 / gaps)
    times = max(times, min(10_000 * mtbf_s / trace.span_ms, 5_000 / gaps))
    return trace.repeat(ceil(times))


def _print_margins(choices: "list[Choice]", step_s: float) -> None:
    """Print the best checkpoint interval of each margin."""
    from rich.table import Table

    from .app import wide_console

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("margin s", "save", "overhead", "of it margins", "steps run again", "at worst"):
        table.add_column(name, justify="right", no_wrap=True)
    for choice in choices:
        table.add_row(
            f"{choice.margin_ns / 1e9:g}",
            _interval(choice, step_s),
            f"{choice.overhead:.3%}",
            f"{choice.margin_share:.3%}",
            f"{choice.lost_share:.3%}",
            f"{choice.worst_overhead:.3%}",
        )
    wide_console().print(table)


def _interval(choice: "Choice", step_s: float) -> str:
    if not choice.save_every:
        return "before gaps only"
    return f"every {choice.save_every:,} steps, {_duration(choice.save_every * step_s)}"


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 60 else f"{seconds / 60:.3g} min"
