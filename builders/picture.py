"""The card's picture: timelines of a few contrasting traces as SVG, the same bytes from the same rows."""

from collections.abc import Sequence
from datetime import timedelta
from html import escape

import pyarrow as pa

from .. import intervals
from ..timeline import DARK, SUNLIT
from ..trace import DAY_MS, Trace

MOST_TRACES = 4
MOST_DAYS = 14
LEFT, WIDTH, DAY_HEIGHT, BAR = 58, 720, 8, 6
TITLE_HEIGHT, FOOT = 26, 44


def contrasting(traces: pa.Table) -> list[str]:
    """Choose what the picture shows: the darkest trace of each regime, and the first regime's brightest.

    Parameters
    ----------
    traces : pyarrow.Table
        Rows of the ``traces`` config with ``trace_id``, ``regime``, ``duty_cycle`` and ``gap_count``.

    Returns
    -------
    list of str
        At most four ids, in the order of the rows.
    """
    rows = traces.select(["trace_id", "regime", "duty_cycle", "gap_count"]).to_pylist()
    by_light = sorted(rows, key=lambda row: (row["duty_cycle"], row["trace_id"]))
    regimes = list(dict.fromkeys(row["regime"] for row in rows))
    chosen = [next(row for row in by_light if row["regime"] == regime) for regime in regimes]
    bright = [row for row in by_light if row["regime"] == regimes[0] and row["gap_count"]]
    chosen = [row["trace_id"] for row in (chosen[: MOST_TRACES - 1] + bright[-1:])]
    return [row["trace_id"] for row in rows if row["trace_id"] in chosen]


def render_picture(traces: Sequence[Trace]) -> str:
    """Draw traces below each other, a row a day over its 24 hours, gaps in blue.

    Parameters
    ----------
    traces : sequence of Trace

    Returns
    -------
    str
        SVG.
    """
    parts, top = [], 4
    for trace in traces:
        parts.append(_one(trace, top))
        top += TITLE_HEIGHT + DAY_HEIGHT * _days(trace)
    hours = [
        f'<text x="{LEFT + hour * WIDTH // 24}" y="{top + 14}" text-anchor="middle">{hour}</text>'
        for hour in range(0, 25, 3)
    ]
    legend = (
        f'<text x="{LEFT + WIDTH // 2}" y="{top + 32}" text-anchor="middle">hour of the day, UTC</text>'
        f'<rect x="{LEFT}" y="{top + 23}" width="10" height="10" fill="{SUNLIT}"/>'
        f'<text x="{LEFT + 15}" y="{top + 32}">window (available)</text>'
        f'<rect x="{LEFT + 150}" y="{top + 23}" width="10" height="10" fill="{DARK}"/>'
        f'<text x="{LEFT + 165}" y="{top + 32}">gap</text>'
    )
    width, height = LEFT + WIDTH + 16, top + FOOT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11" fill="#222">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
        + "\n".join([*parts, *hours, legend])
        + "\n</svg>\n"
    )


def _one(trace: Trace, top: int) -> str:
    """Draw one trace: its title, a bar a day, and all its gaps as one path."""
    title = (
        f"{trace.trace_id}  {trace.name}: {trace.gap_count} gaps, longest {trace.longest_gap_ms / 60_000:.1f} min, "
        f"duty cycle {trace.duty_cycle:.3f}"
    )
    parts = [f'<text x="{LEFT}" y="{top + 16}" font-size="12">{escape(title)}</text>']
    gaps = []
    for day in range(_days(trace)):
        first = day * DAY_MS
        last = min(first + DAY_MS, trace.span_ms)
        y = top + TITLE_HEIGHT - 4 + day * DAY_HEIGHT
        if day % 7 == 0:
            label = f"day {day}" if trace.start is None else f"{trace.start + timedelta(days=day):%d %b}"
            parts.append(f'<text x="{LEFT - 6}" y="{y + BAR}" text-anchor="end" font-size="9">{label}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{_x(last - first)}" height="{BAR}" fill="{SUNLIT}"/>')
        for a, b in (intervals.clip(trace.gaps, first, last) - first).tolist():
            width = _x(b - a)
            gaps.append(f"M{_x(a, LEFT)} {y}h{width}v{BAR}h-{width}z")
    if gaps:
        parts.append(f'<path fill="{DARK}" d="{"".join(gaps)}"/>')
    return "\n".join(parts)


def _days(trace: Trace) -> int:
    return min(-(-trace.span_ms // DAY_MS), MOST_DAYS)


def _x(ms: int, offset: int = 0) -> str:
    """Return milliseconds of a day as a length in tenths of a unit, from whole numbers alone."""
    tenths = offset * 10 + (ms * WIDTH * 10 + DAY_MS // 2) // DAY_MS
    return f"{tenths // 10}.{tenths % 10}" if tenths % 10 else str(tenths // 10)
