"""Every interval of real satellites against a scan in steps of one second.

    PYTHONPATH=. python benchmarks/scan_check.py FILE [--satellites 2000] [--days 7] [--start 2024-09-23] [--workers 1]

FILE holds element sets in any format that the package reads; satellites are taken evenly from it. At
every second the angles between the directions to the Sun and to the Earth's (or the Moon's) centre say whether
the satellite is inside each boundary; nothing of the search is used. A second counts as wrong where the two
disagree and no boundary lies within the rounding to a millisecond.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from orbittrace_data.builders.constants import (
    EARTH_FLATTENING,
    EARTH_RADIUS_KM,
    MOON_RADIUS_KM,
    SUN_RADIUS_KM,
)
from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.gp import read_element_sets
from orbittrace_data.builders.propagation import satrec, states
from orbittrace_data.builders.sun_moon import moon_teme, sun_teme
from orbittrace_data.progress import progress

BLOCK_S = 20_000
SURE = 1e-8  # the margins' own rounding
ROUNDING_S = 6e-4  # contacts are written in whole milliseconds
CHUNK = 20


def main() -> int:
    """Print what was compared and where the two disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--satellites", type=int, default=2_000)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--start", default="2024-09-23")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    every = read_element_sets(arguments.file).element_sets
    taken = np.unique(np.linspace(0, len(every) - 1, arguments.satellites).round().astype(int))
    chosen = [every[i] for i in taken.tolist()]
    start_ms = int(datetime.fromisoformat(arguments.start).replace(tzinfo=UTC).timestamp()) * 1000
    span_ms = arguments.days * 86_400_000
    jobs = [(chosen[i : i + CHUNK], start_ms, span_ms) for i in range(0, len(chosen), CHUNK)]
    totals = np.zeros(4, np.int64)
    worst = 0.0
    with (
        ProcessPoolExecutor(arguments.workers) as pool,
        progress("scan", len(jobs) * CHUNK, "satellites") as advance,
    ):
        for counts, off_s, notes in pool.map(check, *zip(*jobs, strict=True)):
            totals += counts
            worst = max(worst, off_s)
            for note in notes:
                print(note)
            advance(CHUNK)
    satellites, intervals, seconds, missed = totals.tolist()
    print(
        f"{satellites} satellites x {arguments.days} days from {arguments.start}: {intervals:,} intervals, "
        f"{seconds:,} seconds looked at per boundary, {missed} on the wrong side; "
        f"the largest distance of a contact from the scan's chord is {worst * 1000:.3f} ms"
    )
    return 1 if missed else 0


def check(element_sets, start_ms, span_ms):
    """Compare one chunk: counts, the worst contact and what went wrong."""
    shadows = find_shadows(element_sets, start_ms, span_ms)
    sky = Sky(start_ms, span_ms // 1000)
    notes, missed, seconds, flown, worst = [], 0, 0, 0, 0.0
    for i, element_set in enumerate(element_sets):
        mine = shadows.satellite == i
        end_s = int(shadows.known_until_ms[i] // 1000)
        if not end_s:
            continue
        flown += 1
        seconds += end_s
        model = satrec(element_set)
        rows = {
            (body, depth): mine & (shadows.occluder == body) & (shadows.depth == depth)
            for body in ("earth", "moon")
            for depth in ("penumbra", "half", "umbra")
        }
        for first_s in range(0, end_s, BLOCK_S):
            t_s = np.arange(first_s, min(first_s + BLOCK_S + 1, end_s))
            _, r, _ = states(model, start_ms, t_s.astype(float))
            every_100 = sky.margins("moon", t_s[::100], r[::100])["penumbra"]
            moon_near = (
                every_100.min() < 0.02
            )  # an angle that takes the fastest satellite a quarter of an hour
            for body in ("earth", "moon") if moon_near else ("earth",):
                for depth, margin in sky.margins(body, t_s, r).items():
                    chosen = rows[body, depth]
                    starts, stops = shadows.start_ms[chosen], shadows.stop_ms[chosen]
                    ours = inside(starts, stops, t_s * 1000)
                    wrong = np.flatnonzero(ours != (margin < 0))
                    wrong = wrong[
                        np.abs(margin[wrong]) > ROUNDING_S * np.abs(np.gradient(margin)[wrong]) + SURE
                    ]
                    if len(wrong):
                        missed += len(wrong)
                        where = t_s[wrong[0]]
                        notes.append(
                            f"{element_set.catalog_number} {body} {depth}: {len(wrong)} s near {where} s"
                        )
                    worst = max(worst, contact_error_s(starts, stops, t_s, margin))
    return np.array([flown, len(shadows.satellite), seconds, missed]), worst, notes


def inside(starts_ms, stops_ms, t_ms):
    """Say at which instants one of sorted, disjoint intervals holds."""
    if not len(starts_ms):
        return np.zeros(len(t_ms), bool)
    k = np.searchsorted(starts_ms, t_ms, side="right") - 1
    return (k >= 0) & (t_ms < stops_ms[np.maximum(k, 0)])


def contact_error_s(starts_ms, stops_ms, t_s, margin):
    """How far contacts are from where a cubic through four seconds' margins crosses zero."""
    edges = np.concatenate([starts_ms, stops_ms]) / 1000
    edges = edges[(edges > t_s[0] + 1) & (edges < t_s[-1] - 2)]
    if not len(edges):
        return 0.0
    k = np.floor(edges).astype(int) - t_s[0]
    before, at, after, last = (margin[k + d] for d in (-1, 0, 1, 2))
    u = edges - np.floor(edges)
    value = (
        -before * u * (u - 1) * (u - 2) / 6
        + at * (u + 1) * (u - 1) * (u - 2) / 2
        - after * (u + 1) * u * (u - 2) / 2
        + last * (u + 1) * u * (u - 1) / 6
    )
    slope = after - at
    steep = np.abs(slope) > 1e-5  # elsewhere a grazing: the time says little
    return float(np.abs(value[steep] / slope[steep]).max(initial=0.0))


class Sky:
    """Sun and Moon at whole seconds, straight lines between minutes."""

    def __init__(self, start_ms, span_s):
        knots = np.arange(-60, span_s + 121, 60)
        self.t_s = knots.astype(float)
        self.sun = sun_teme(knots + start_ms // 1000)
        self.moon = moon_teme(knots + start_ms // 1000)

    def at(self, table, t_s):
        """Interpolate a table's three columns."""
        return [np.interp(t_s, self.t_s, table[:, i]) for i in range(3)]

    def margins(self, body, t_s, r):
        """Angles from the boundaries [rad] (for half: covered fraction), negative inside."""
        k = 1 / (1 - EARTH_FLATTENING) if body == "earth" else 1.0
        radius = EARTH_RADIUS_KM if body == "earth" else MOON_RADIUS_KM
        sun = self.at(self.sun, t_s)
        centre = [0.0, 0.0, 0.0] if body == "earth" else self.at(self.moon, t_s)
        stretch = (1.0, 1.0, k)
        s = [(sun[i] - r[:, i]) * stretch[i] for i in range(3)]
        b = [(centre[i] - r[:, i]) * stretch[i] for i in range(3)]
        s2, b2, dot = (sum(p * q for p, q in zip(*pair, strict=True)) for pair in ((s, s), (b, b), (s, b)))
        solar = np.arcsin(SUN_RADIUS_KM / np.sqrt(s2))
        disc = np.arcsin(np.minimum(radius / np.sqrt(b2), 1.0))
        cross = np.sqrt(
            (s[1] * b[2] - s[2] * b[1]) ** 2
            + (s[2] * b[0] - s[0] * b[2]) ** 2
            + (s[0] * b[1] - s[1] * b[0]) ** 2
        )
        apart = np.arctan2(cross, dot)
        half = np.where(apart >= solar + disc, 0.5, -0.5)
        ring = (apart < solar + disc) & (apart > np.abs(disc - solar))
        half[ring] = 0.5 - covered(solar[ring], disc[ring], apart[ring])
        small = (apart <= solar - disc) & (disc < solar)
        half[small] = 0.5 - (disc[small] / solar[small]) ** 2
        return {"penumbra": apart - solar - disc, "half": half, "umbra": apart - disc + solar}


def covered(a, b, c):
    """Give the covered fraction of a disc of radius a, as two circular segments."""
    u = np.arccos(np.clip((c**2 + a**2 - b**2) / (2 * c * a), -1, 1))
    w = np.arccos(np.clip((c**2 + b**2 - a**2) / (2 * c * b), -1, 1))
    return (a**2 * (u - np.sin(2 * u) / 2) + b**2 * (w - np.sin(2 * w) / 2)) / (np.pi * a**2)


if __name__ == "__main__":
    sys.exit(main())
