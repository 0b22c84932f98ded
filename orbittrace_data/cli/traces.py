"""``orbittrace list``, ``show`` and ``export``: looking at traces, and the bundled release as a folder."""

from pathlib import Path
from typing import Annotated

import typer

from .app import app

SOURCE = Annotated[
    str | None, typer.Option(help="A release folder or a Hub id; by default the bundled release.")
]
VERSION = Annotated[str | None, typer.Option(help="The data version that is wanted, such as 1.0.0.")]


@app.command("list")
def list_traces(
    split: Annotated[str | None, typer.Option(help="dev or test.")] = None,
    regime: Annotated[str | None, typer.Option(help="leo, meo, geo, heo or other.")] = None,
    config: Annotated[str, typer.Option(help="traces: sunlight; energy: a payload on a battery.")] = "traces",
    source: SOURCE = None,
    version: VERSION = None,
) -> None:
    """Print a table of the traces."""
    from rich.table import Table

    from ..loader import load_traces, open_release
    from .app import wide_console

    traces = load_traces(config=config, split=split, regime=regime, source=source, version=version)  # type: ignore[arg-type] - load_traces checks the names
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("trace", "split", "satellite", "orbit"):
        table.add_column(name, no_wrap=True)
    for name in ("altitude km", "duty", "gaps", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    for trace in traces:
        orbit = trace.orbit
        table.add_row(
            trace.trace_id,
            trace.split,
            trace.name,
            orbit.orbit_class if orbit else "",
            f"{orbit.perigee_km:.0f}-{orbit.apogee_km:.0f}" if orbit else "",
            f"{trace.duty_cycle:.4f}",
            str(trace.gap_count) if trace.gap_count else "control",
            f"{trace.longest_gap_ms / 60_000:.1f} min",
        )
    console = wide_console()
    console.print(table)
    release = traces[0].release if traces else open_release(source, version)[1].label
    console.print(f"{len(traces)} traces, data version {release}", highlight=False)


@app.command()
def show(
    trace_id: Annotated[
        str,
        typer.Argument(help="leo-25544, duty:60m/35m, pause:10s/2s, cap:ZONE,HOURS,DATE,DAYSd, or a file."),
    ],
    plot: Annotated[
        Path | None, typer.Option(help="Write the timeline of the whole span to this PNG, SVG or PDF.")
    ] = None,
    power: Annotated[
        str | None,
        typer.Option(help="Show its energy trace under this power system: a TOML file, or cubesat-6u, ..."),
    ] = None,
    day: Annotated[int, typer.Option(help="Which day to draw in the terminal, from 0.")] = 0,
    source: SOURCE = None,
    version: VERSION = None,
) -> None:
    """Print a trace's facts, and a day of it drawn in the terminal."""
    from ..errors import InputError
    from ..timeline import DAY_MS, HOUR_MS, plot_timeline, save_figure, terminal_day
    from ..trace_spec import energy_trace_of, resolve_trace

    more = []
    if power is None:
        trace = resolve_trace(trace_id, source=source, version=version)
    else:
        trace, profile = energy_trace_of(trace_id, power, source=source, version=version)
        sunlit = resolve_trace(trace_id, source=source, version=version)
        more = energy_facts(sunlit, profile)
    if not 0 <= day * DAY_MS < trace.span_ms:
        raise InputError(
            f"trace {trace_id} has the days 0 to {-(-trace.span_ms // DAY_MS) - 1}, got --day {day}"
        )
    if plot is not None:
        if power is not None:
            from ..charge_plot import plot_charge
            from ..power_model import PowerModel

            save_figure(plot_charge(trace, profile, PowerModel.read(power), sunlit), plot)
        else:
            save_figure(plot_timeline(trace), plot)
        print(f"wrote {plot}")
        return
    for name, value in facts(trace) + more:
        print(f"{name:<14} {value}")
    scale = "" if trace.span_ms >= 4 * HOUR_MS else f", a line is {trace.span_ms / 60_000:.6g} min"
    print(f"\nday {day}, full blocks are windows, blanks are gaps{scale}:")
    for line in terminal_day(trace, day * DAY_MS):
        print(line)


def energy_facts(sunlit, profile) -> list[tuple[str, str]]:
    """Return what an energy trace has beside a sunlight trace, as pairs of texts."""
    from ..energy import FJ_PER_WH

    share = 100 / profile.harvested_fj if profile.harvested_fj else 0
    return [
        ("in sunlight", f"duty cycle {sunlit.duty_cycle:.6f}, {sunlit.gap_count} gaps"),
        ("charge", f"{profile.soc.min():.3f} to {profile.soc.max():.3f}"),
        (
            "energy",
            f"{profile.harvested_fj / FJ_PER_WH:,.1f} Wh from the panel: {profile.load_fj * share:.1f}% drawn while it "
            f"runs, {profile.idle_fj * share:.1f}% while it does not, {profile.unstored_fj * share:.1f}% not stored",
        ),
    ]


def facts(trace) -> list[tuple[str, str]]:
    """Return the facts of a trace as pairs of texts."""
    gaps = trace.gaps[:, 1] - trace.gaps[:, 0]
    unit, unit_ms = ("s", 1000) if gaps.max(initial=0) < 120_000 else ("min", 60_000)
    lines = [
        ("trace", f"{trace.trace_id}  {trace.name}"),
        ("release", f"{trace.release or 'none'}" + (f", split {trace.split}" if trace.split else "")),
    ]
    if trace.orbit is not None:
        orbit = trace.orbit
        lines += [
            ("orbit", f"{trace.regime}, {orbit.orbit_class}, {orbit.inclination_deg:.2f} deg"),
            (
                "altitude",
                f"{orbit.perigee_km:,.1f} to {orbit.apogee_km:,.1f} km, period {orbit.period_s / 60:.2f} min",
            ),
            ("beta angle", f"{orbit.beta_min_deg:.1f} to {orbit.beta_max_deg:.1f} deg"),
            ("object", f"{orbit.catalog_number}, {orbit.object_id}"),
            (
                "elements",
                f"epoch {orbit.epoch:%Y-%m-%d %H:%M:%S} UTC, {orbit.element_age_ms / 86_400_000:.2f} days old at t = 0",
            ),
        ]
    if trace.start is not None:
        lines.append(
            ("from", f"{trace.start:%Y-%m-%d %H:%M:%S} UTC for {trace.span_ms / 86_400_000:.6g} days")
        )
    lines += [
        ("duty cycle", f"{trace.duty_cycle:.6f}"),
        (
            "gaps",
            "none: a control"
            if trace.is_control
            else f"{trace.gap_count}, {gaps.min() / unit_ms:.2f} to {gaps.max() / unit_ms:.2f} {unit}",
        ),
    ]
    return lines


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Where to write the release.")] = Path("orbittrace"),
) -> None:
    """Write the bundled release to a folder, so that load_dataset("orbittrace") works beside it."""
    from ..atomic import new_directory
    from ..loader import BUNDLED, open_release
    from ..manifest import MANIFEST_NAME

    _, manifest = open_release()
    done = f'data version {manifest.version}; load it with load_dataset("{folder}")'
    theirs = folder / MANIFEST_NAME
    if theirs.is_file() and theirs.read_bytes() == (BUNDLED / MANIFEST_NAME).read_bytes():
        open_release(folder)
        print(f"{folder} holds it already: {done}")
        return
    with new_directory(folder) as target:
        for path in sorted(path for path in BUNDLED.rglob("*") if path.is_file()):
            copy = target / path.relative_to(BUNDLED)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    print(f"wrote {folder}: {done}")
