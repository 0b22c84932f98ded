"""The report's figures, drawn from rows as SVG: safe for colour-blind readers, and legible in grey print."""

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from .claims import REFERENCES, Phase, Runs, align, is_pause, phases
from .protocol import short_name
from .records import Row
from .statistics import Estimate, estimate

# Okabe and Ito (2008), https://jfly.uni-koeln.de/color/: told apart with any colour vision. Line styles and
# markers differ too, so that nothing hangs on colour.
STYLE = {
    "uninterrupted": {"color": "#000000", "linestyle": "-", "linewidth": 3.0, "alpha": 0.35},
    "strong": {"color": "#0072B2", "linestyle": "-"},
    "weak": {"color": "#D55E00", "linestyle": "--"},
    "weak-wall-horizon": {"color": "#CC79A7", "linestyle": ":"},
    "aat": {"color": "#009E73", "linestyle": "-."},
}
OTHERS = ("#E69F00", "#56B4E9", "#CC79A7")
GAP = {"facecolor": "#e6e6e6", "edgecolor": "none"}
SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "orbittrace",
}
REGIMES = (
    ("stationary", "all", False),
    ("state loss: v persists", "v", False),
    ("state loss: m persists", "m", False),
    ("state loss: nothing persists", "nothing", False),
    ("drift", "all", True),
)


@contextmanager
def _drawn() -> Iterator[None]:
    with mpl.rc_context(SETTINGS):
        yield


def loss_curves(runs: Runs, trace: str) -> Figure | None:
    """Draw the mean training loss of the methods over active and over wall-clock time, gaps shaded."""
    with _drawn():
        rows = [r for r in runs.rows if r["trace"] in (trace, "no-gaps") and r["persists"] == "all"]
        rows = [
            r for r in rows if not r["drift_at"] and r["seed"] == r["order_seed"] and r["method"] in STYLE
        ]
        by_method = defaultdict(list)
        for row in rows:
            by_method[row["method"]].append(row)
        if len(by_method) < 2:
            return None
        figure = Figure(figsize=(9.2, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for method in STYLE:
            if method in by_method:
                loss = np.mean([row["curve_loss"] for row in by_method[method]], axis=0)
                first = by_method[method][0]
                left.plot(np.array(first["curve_active_s"]) / 3600, loss, label=method, **STYLE[method])
                right.plot(*_broken_at_gaps(first, loss), label=method, **STYLE[method])
        gapped = next((r for r in rows if r["gap_start_s"]), None)
        if gapped is not None:
            gone = 0.0
            for start, stop in zip(gapped["gap_start_s"], gapped["gap_stop_s"], strict=True):
                right.axvspan(start / 3600, stop / 3600, zorder=0, **GAP)
                left.axvline((start - gone) / 3600, color="#bbbbbb", linewidth=0.8, zorder=0)
                gone += stop - start
        left.set(xlabel="active time [h]", ylabel="training loss [nats]", title="over active time")
        right.set(xlabel="wall-clock time [h]", title="over wall-clock time, gaps shaded")
        right.legend(loc="upper right", frameon=True, framealpha=1.0, edgecolor="none")
        left.margins(x=0.01)
        return figure


def _broken_at_gaps(row: Row, loss: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return hours of wall-clock time and losses, with a hole wherever a gap lies between two points."""
    wall = np.array(row["curve_wall_s"])
    holes = np.searchsorted(wall, row["gap_start_s"])
    holes = holes[(holes > 0) & (holes < len(wall))]
    return np.insert(wall / 3600, holes, np.nan), np.insert(loss, holes, np.nan)


def forest(runs: Runs) -> Figure | None:
    """Draw every method's difference to strong in every regime, with its interval and the noise floor."""
    with _drawn():
        panels: list[tuple[str, list[tuple[str, Estimate]]]] = []
        for title, persists, drift in REGIMES:
            strong = runs.cell("strong", persists, drift)
            lines: list[tuple[str, Estimate]] = []
            for method in runs.methods(persists, drift):
                if method not in REFERENCES:
                    _, seeds, values = align(runs.cell(method, persists, drift), strong)
                    if seeds:
                        lines.append((short_name(method), estimate(values[0] - values[1])))
            if persists == "nothing":
                _, seeds, values = align(runs.cell("uninterrupted"), strong)
                if seeds:
                    lines.append(("no loss of state", estimate(values[0] - values[1])))
            if lines:
                panels.append((title, lines))
        if not panels:
            return None
        heights = [len(lines) + 1.0 for _, lines in panels]
        figure = Figure(figsize=(9.2, 0.34 * sum(heights) + 0.6), layout="constrained")
        axes = np.atleast_1d(figure.subplots(len(panels), 1, height_ratios=heights, sharex=True))
        for ax, (title, lines) in zip(axes, panels, strict=True):
            if runs.floor:
                ax.axvspan(-runs.floor.sd, runs.floor.sd, zorder=0, **GAP)
            ax.axvline(0, color="#0072B2", linewidth=1.2)
            for y, (_, e) in enumerate(lines):
                ax.plot([e.low, e.high], [y, y], color="#222222", linewidth=1.6, solid_capstyle="butt")
                ax.plot(e.mean, y, "o" if e.excludes_zero else "s", color="#222222", markersize=5.5,
                        markerfacecolor="#222222" if e.excludes_zero else "white")  # fmt: skip
            ax.set_yticks(range(len(lines)), [name for name, _ in lines])
            ax.set(ylim=(len(lines) - 0.4, -0.6), title=title)
            ax.tick_params(axis="y", length=0)
        axes[-1].set_xlabel("validation loss minus strong's [nats]: left of the line is better than strong")
        return figure


def phase_diagrams(runs: Runs) -> Figure | None:
    """Draw the share of the state-loss penalty that reconstruction recovers, by frequency and length."""
    with _drawn():
        panels: dict[tuple[str, str], list[Phase]] = defaultdict(list)
        for phase in phases(runs):
            panels[phase.persists, phase.method].append(phase)
        if not panels:
            return None
        figure = Figure(figsize=(4.6 * max(2, len(panels)), 2.6), layout="constrained")
        axes = figure.subplots(1, max(2, len(panels)), squeeze=False)[0]
        for ax, ((persists, method), points) in zip(axes, panels.items(), strict=False):
            deltas = sorted({p.delta for p in points})
            windows = sorted({p.window_steps for p in points})
            grid = np.full((len(windows), len(deltas)), np.nan)
            for p in points:
                x, y = deltas.index(p.delta), windows.index(p.window_steps)
                share = p.recovered
                if share is None:
                    ax.add_patch(Rectangle((x, y), 1, 1, facecolor="white",
                                                       edgecolor="#999999", hatch="///", linewidth=0))  # fmt: skip
                    continue
                grid[y, x] = share.mean
                dark = share.mean < 0.5  # cividis runs from dark to light
                ax.text(x + 0.5, y + 0.5, f"{share.mean:.0%}\n{share.low:.0%} to {share.high:.0%}", ha="center", va="center",
                        fontsize=7.5, color="white" if dark else "black")  # fmt: skip
            ax.pcolormesh(grid, cmap="cividis", vmin=-0.25, vmax=1.25, edgecolors="white", linewidth=1.5)
            ax.set_xticks(np.arange(len(deltas)) + 0.5, [f"{d:.0f}" for d in deltas])
            ax.set_yticks(np.arange(len(windows)) + 0.5, [f"{w:.0f}" for w in windows])
            ax.set(xlabel="length of a pause [steps]", ylabel="steps between pauses",
                   title=f"{persists} persists, {short_name(method)}")  # fmt: skip
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        return figure


def scatter(runs: Runs) -> Figure | None:
    """Draw each trace's mean penalty against its duty cycle and the length of its gaps."""
    with _drawn():
        whole = runs.cell("uninterrupted").get("no-gaps", {})
        points = []
        for method in ("weak", "aat", "strong"):
            for trace, seeds in runs.cell(method).items():
                row = next(r for r in runs.select(method) if r["trace"] == trace)
                common = sorted(set(seeds) & set(whole))
                if common and not is_pause(row):
                    e = estimate([seeds[s] - whole[s] for s in common])
                    gap_s = (
                        np.median(np.subtract(row["gap_stop_s"], row["gap_start_s"])) if row["gaps"] else 0.0
                    )
                    points.append((method, trace, row["duty_cycle"], gap_s / 60, e))
        if not points:
            return None
        figure = Figure(figsize=(9.2, 3.0), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        marks = {"strong": "o", "weak": "^", "aat": "s"}
        shift = {"strong": 0.0, "weak": -0.012, "aat": 0.012}
        for place, (ax, label) in enumerate(
            zip(axes, ("duty cycle", "median gap that was met [min]"), strict=True)
        ):
            values = [p[2 + place] for p in points]
            width = max(max(values) - min(values), 0.1 * max(values))
            ax.set_xlim(min(values) - 0.08 * width, max(values) + 0.08 * width)
            ax.axhline(0, color="#0072B2", linewidth=1.0, zorder=1)
            if runs.floor:
                ax.axhspan(-runs.floor.sd, runs.floor.sd, zorder=0, **GAP)
            for method, mark in marks.items():
                mine = [p for p in points if p[0] == method]
                if not mine:
                    continue
                x = [p[2 + place] + shift[method] * width for p in mine]
                y = np.array([p[4].mean for p in mine])
                half = np.array([min(p[4].high - p[4].mean, 1e9) for p in mine])
                half = half if np.isfinite(half).all() else None
                ax.errorbar(x, y, half, fmt=mark, color=STYLE[method]["color"], label=method, markersize=5.5,
                            linewidth=1.1, capsize=2)  # fmt: skip
            ax.set_xlabel(label)
        axes[0].set_ylabel("loss minus uninterrupted's [nats]")
        axes[0].legend(loc="best")
        return figure


def sizes(groups: Sequence[Runs]) -> Figure | None:
    """Draw what losing the state costs, and what reconstruction wins back, against the model's size."""
    with _drawn():
        lines: list[tuple[str, Phase]] = []
        for runs in groups:
            lines += [(runs.setup.short_task, phase) for phase in phases(runs) if phase.brief]
        by_size = defaultdict(list)
        for task, phase in lines:
            by_size[phase.persists, phase.window_steps].append((task, phase))
        by_size = {key: value for key, value in by_size.items() if len({task for task, _ in value}) > 1}
        if not by_size:
            return None
        figure = Figure(figsize=(9.2, 2.6), layout="constrained")
        axes = figure.subplots(1, max(2, len(by_size)), sharey=True, squeeze=False)[0]
        for ax, ((persists, window), found) in zip(axes, sorted(by_size.items()), strict=False):
            for place, (_, phase) in enumerate(found):
                for shift, e, mark, color, label in (
                    (-0.1, phase.penalty, "^", "#D55E00", "cost of losing all state"),
                    (0.1, phase.gain, "s", "#009E73", "won back by reconstruction"),
                ):
                    half = e.high - e.mean
                    ax.errorbar(place + shift, e.mean, half if np.isfinite(half) else None, fmt=mark, color=color,
                                label=label if not place else None, capsize=2, markersize=5.5)  # fmt: skip
            ax.axhline(0, color="#999999", linewidth=0.8)
            ax.set_xticks(range(len(found)), [task for task, _ in found])
            ax.set_title(f"{persists} persists, a pause every {window:.0f} steps")
        axes[0].set_ylabel("validation loss [nats]")
        axes[0].legend()
        for ax in axes[len(by_size) :]:
            ax.set_visible(False)
        return figure


def as_svg(figure: Figure, name: str, description: str) -> str:
    """Return a figure as an inline SVG element: ids of its own, a text for screen readers, no links out."""
    buffer = io.StringIO()
    with _drawn():
        empty = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", metadata=empty)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'xlink:href="#', f'xlink:href="#{name}-', svg)
    head, _, rest = svg.partition(">")
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{description}">{rest}'
