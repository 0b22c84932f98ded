"""A picture of an energy trace: the state of charge over time, with the gaps shaded."""

from typing import TYPE_CHECKING

from . import intervals
from .energy import ChargeProfile
from .power_model import PowerModel
from .timeline import DARK, HOUR_MS, require_matplotlib
from .trace import DAY_MS, Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHARGE, THRESHOLD = "#D55E00", "#555555"  # Okabe & Ito (2008)


def plot_charge(energy: Trace, profile: ChargeProfile, model: PowerModel, sunlit: Trace) -> "Figure":
    """Plot the state of charge over the whole span, and over the first eight hours that hold a gap.

    Parameters
    ----------
    energy, profile
        As `energy_trace` returns them.
    model : PowerModel
        Its thresholds are drawn.
    sunlit : Trace
        The satellite's sunlight trace: its gaps, the eclipses, are drawn as a bar below.

    Returns
    -------
    matplotlib.figure.Figure
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.2), layout="constrained")
    whole, near = figure.subplots(2, 1)
    first_gap = int(energy.gaps[0, 0]) if energy.gap_count else 0
    start = min(max(0, first_gap - HOUR_MS), max(0, energy.span_ms - 8 * HOUR_MS))
    _draw(whole, energy, profile, model, sunlit, (0, energy.span_ms), DAY_MS, "days")
    _draw(
        near,
        energy,
        profile,
        model,
        sunlit,
        (start, min(start + 8 * HOUR_MS, energy.span_ms)),
        HOUR_MS,
        "hours",
    )
    whole.set_title(
        f"{energy.name}: {energy.gap_count} gaps, longest {energy.longest_gap_ms / 60_000:.1f} min, duty cycle "
        f"{energy.duty_cycle:.3f} (in sunlight {sunlit.duty_cycle:.3f})",
        loc="left",
        fontsize=10,
    )
    handles, labels = near.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=4, fontsize=8, frameon=False)
    return figure


def _draw(axis, energy, profile, model, sunlit, span, unit_ms, unit) -> None:
    start, stop = span

    def bars(trace):
        return [(a / unit_ms, (b - a) / unit_ms) for a, b in intervals.clip(trace.gaps, start, stop).tolist()]

    axis.broken_barh(bars(energy), (0, 1.02), color=DARK, alpha=0.35, linewidth=0, label="gap: payload off")
    axis.broken_barh(bars(sunlit), (-0.09, 0.06), color="black", linewidth=0, label="eclipse")
    keep = (profile.time_ms >= start) & (profile.time_ms <= stop)
    time_ms = [start, *profile.time_ms[keep].tolist(), stop]
    axis.plot(
        [t / unit_ms for t in time_ms],
        profile.at(time_ms),
        color=CHARGE,
        linewidth=1.2,
        label="state of charge",
    )
    for level, label in ((model.min_soc, "min_soc, resume_soc"), (model.resume_soc, None)):
        axis.axhline(level, color=THRESHOLD, linewidth=0.8, linestyle="--", label=label)
    axis.set_xlim(start / unit_ms, stop / unit_ms)
    axis.set_ylim(-0.1, 1.02)
    axis.set_xlabel(f"{unit} from the trace's start")
    axis.set_ylabel("state of charge")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
