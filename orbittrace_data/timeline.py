"""Pictures of traces: a day in the terminal, and timelines of whole spans with the gaps shaded."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import intervals
from .errors import InputError
from .trace import DAY_MS, Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR_MS = 3_600_000
# Okabe & Ito (2008): told apart by colour-blind people, and by their lightness in print.
SUNLIT, DARK = "#F0E442", "#0072B2"
_BLOCKS = "█▓▒░ "


def terminal_day(trace: Trace, first_ms: int = 0, width: int = 72) -> list[str]:
    """Draw up to 24 hours of a trace in characters, one line for each four hours; a shorter trace fills one line.

    Parameters
    ----------
    trace : Trace
    first_ms : int
        Where the drawing begins [ms].
    width : int
        Characters a line; a full block is all available, a blank is all gap.

    Returns
    -------
    list of str

    Examples
    --------
    >>> print(terminal_day(Trace("demo", 4 * 3_600_000, [[3_600_000, 7_200_000]]), width=8)[0])
      0 h |██  ████|
    """
    per_line_ms = min(4 * HOUR_MS, trace.span_ms)
    last_ms = min(first_ms + DAY_MS, trace.span_ms)
    lines = []
    for start_ms in range(first_ms, last_ms, per_line_ms):
        edges = np.linspace(start_ms, start_ms + per_line_ms, width + 1).astype(np.int64)
        edges = np.unique(np.minimum(edges, trace.span_ms))  # the line ends where the trace does
        share = np.diff(trace.active_ms(edges)) / np.diff(edges)
        drawn = "".join(_BLOCKS[round((1 - s) * 4)] for s in share)
        lines.append(f"{start_ms / HOUR_MS:3.0f} h |{drawn}|")
    return lines


def plot_timeline(trace: Trace) -> "Figure":
    """Plot the whole span of a trace, a row a day, with the gaps shaded.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(1, max(2.4, 0.9 + 0.28 * -(-trace.span_ms // DAY_MS)))
    _draw_days(axes[0], trace)
    axes[0].set_title(_title(trace), loc="left", fontsize=10)
    _legend(figure)
    return figure


def plot_timelines(traces: Sequence[Trace], days: int = 14) -> "Figure":
    """Plot several traces below each other, a row a day, for comparison.

    Parameters
    ----------
    traces : sequence of Trace
    days : int
        How many days of each are shown.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(len(traces), 2.1 * len(traces) + 0.6)
    for axis, trace in zip(axes, traces, strict=True):
        _draw_days(axis, trace.crop(0, min(days * DAY_MS, trace.span_ms)))
        axis.set_title(_title(trace), loc="left", fontsize=10)
        if axis is not axes[-1]:
            axis.set_xlabel("")
    _legend(figure)
    return figure


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the name's ending, whole or not at all."""
    import io

    from .atomic import write_bytes

    kind = picture_kind(path)
    buffer = io.BytesIO()
    # No dates and program versions inside: the same picture has the same bytes.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    write_bytes(path, buffer.getvalue())


def picture_kind(path: str | Path) -> str:
    """Return png, svg or pdf by a name's ending, or refuse: before the work that is to be drawn."""
    require_matplotlib()
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise InputError(f"a picture is written as .png, .svg or .pdf, got {path.name!r}")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: make it first")
    return kind


def require_matplotlib() -> None:
    """Raise an InputError that names the extra if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        raise InputError(
            "pictures need matplotlib: install it with pip install 'orbittrace-data[plot]'"
        ) from None


def _figure(rows: int, height_inch: float):
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height_inch), layout="constrained")
    return figure, figure.subplots(rows, 1, squeeze=False)[:, 0]


def _draw_days(axis, trace: Trace) -> None:
    """Draw one bar a day, from the top down, over the hours of the day."""
    days = -(-trace.span_ms // DAY_MS)
    for day in range(days):
        first, last = day * DAY_MS, min((day + 1) * DAY_MS, trace.span_ms)
        axis.broken_barh([(0, (last - first) / HOUR_MS)], (day - 0.4, 0.8), color=SUNLIT, linewidth=0)
        gaps = intervals.clip(trace.gaps, first, last) - first
        axis.broken_barh(
            [(a / HOUR_MS, (b - a) / HOUR_MS) for a, b in gaps.tolist()],
            (day - 0.4, 0.8),
            color=DARK,
            linewidth=0,
        )
    axis.set_xlim(0, 24)
    axis.set_ylim(days - 0.5, -0.5)
    axis.set_xticks(range(0, 25, 3))
    ticks = list(range(0, days, max(1, -(-days // 7))))
    axis.set_yticks(ticks, [_day_label(trace, day) for day in ticks], fontsize=8)
    axis.set_xlabel(_hours_label(trace))
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def _hours_label(trace: Trace) -> str:
    if trace.start is None:
        return "hours"
    midnight = trace.start.replace(hour=0, minute=0, second=0, microsecond=0)
    return "hour of the day, UTC" if trace.start == midnight else f"hours from {trace.start:%H:%M:%S} UTC"


def _day_label(trace: Trace, day: int) -> str:
    return f"day {day}" if trace.start is None else (trace.start + timedelta(days=day)).strftime("%d %b")


def _title(trace: Trace) -> str:
    kind = f", {trace.orbit.orbit_class}" if trace.orbit else ""
    return (
        f"{trace.trace_id}  {trace.name}{kind}: {trace.gap_count} gaps, "
        f"longest {trace.longest_gap_ms / 60_000:.1f} min, duty cycle {trace.duty_cycle:.3f}"
    )


def _legend(figure: "Figure") -> None:
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(color=SUNLIT, label="window (available)"), Patch(color=DARK, label="gap")],
        loc="outside lower right",
        ncols=2,
        fontsize=8,
        frameon=False,
    )
