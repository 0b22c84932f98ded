"""Pictures of forecasts that miss: when contacts came, and what margins and intervals cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .advice import Choice
from .forecast import Misses
from .timeline import require_matplotlib
from .trace import DAY_MS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe & Ito (2008), told apart by colour-blind people; the markers tell them apart in print.
COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
MARKERS = "osD^vPX"


def plot_misses(misses: Misses, title: str) -> "Figure":
    """Plot by how much each gap began and ended late, over the days of the span.

    Parameters
    ----------
    misses : Misses
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axis = _figure()
    days = misses.at_ms / DAY_MS
    axis.axhline(0, color="#555555", linewidth=0.8)
    for late_ms, label, colour, marker in (
        (misses.start_late_ms, "gap begins", COLOURS[4], "v"),
        (misses.stop_late_ms, "gap ends", COLOURS[1], "^"),
    ):
        axis.plot(days, late_ms / 1000, marker, markersize=3.5, color=colour, label=label)
    axis.set_xlabel("days from the start")
    axis.set_ylabel("actual minus forecast, s\n(below 0: early)")
    axis.set_title(title, loc="left", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    return figure


def plot_choices(choices: Sequence[Choice], step_ns: int, title: str) -> "Figure":
    """Plot the mean overhead over the margin, a line for each checkpoint interval.

    Parameters
    ----------
    choices : sequence of Choice
    step_ns : int
        To name the intervals in minutes [ns].
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axis = _figure()
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    intervals = sorted({choice.save_every or 0 for choice in choices})
    for i, every in enumerate(intervals):
        line = sorted((c.margin_ns / 1e9, 100 * c.overhead) for c in choices if (c.save_every or 0) == every)
        axis.plot(
            [margin_s for margin_s, _ in line],
            [percent for _, percent in line],
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=5,
            linewidth=1.2,
            label=f"save every {every * step_ns / 60e9:.3g} min" if every else "save before gaps only",
        )
    best = min(choices, key=lambda choice: (choice.overhead, choice.worst_overhead))
    axis.plot(
        best.margin_ns / 1e9, 100 * best.overhead, "o", markersize=14, fillstyle="none", color=COLOURS[5]
    )
    axis.annotate(
        "best",
        (best.margin_ns / 1e9, 100 * best.overhead),
        xytext=(0, -20),
        ha="center",
        textcoords="offset points",
        fontsize=9,
    )
    axis.set_xlabel("margin before each gap, s")
    axis.set_ylabel("available time beyond the\nuseful steps, % of them")
    if best.overhead > 0:  # with no margin and few saves it may be fifty times the best
        axis.set_yscale("log")
        axis.set_ylim(bottom=100 * best.overhead / 2)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda percent, _: f"{percent:g}"))
        axis.yaxis.set_minor_locator(NullLocator())
    axis.set_title(title, loc="left", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    return figure


def _figure():
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axis = figure.subplots()
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure, axis
