"""What others take for the same shadow contacts, and how far they are from ours.

    pip install -e '.[bench]'
    PYTHONPATH=. python benchmarks/peers.py [FILE] [--days 7] [--rounds 3] [--satellites 50]

ISS alone, then low satellites in bulk (of a file or a snapshot, by default a bundled one; with shifted nodes where it
holds fewer); the Earth's shadow only. All run in turn, several rounds; CPU times are medians. Each peer has its own
definition of the shadow, so its boundaries are compared with ours under the nearest one: their disagreement says what
its choices and its step cost, not only its errors. Raw figures go into a dated folder.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from statistics import median

import numpy as np

try:
    import satkit
    from orbit_predictor.sources import get_predictor_from_tle_lines
    from skyfield.almanac import find_discrete
    from skyfield.api import EarthSatellite, load, load_file
except ImportError as error:
    sys.exit(f"the peers need the extra bench ({error}): pip install 'orbittrace-data[bench]'")
from scaling import machine, repeated, results_folder

from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.propagation import satrec, states
from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.satellite_trace import regime_of
from orbittrace_data.builders.shadow import ShadowModel, occluders
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.builders.tle_writer import write_tle
from orbittrace_data.trace import DAY_MS

LEAST_S = 0.2  # of CPU time in a round: what is faster is repeated, and the mean taken
SPHERE = ShadowModel(earth="sphere", moon=False)
DEFINITIONS = {
    "orbittrace": "an oblate Earth: penumbra, half and umbra, refined to 1e-9 s",
    "skyfield": "`find_discrete` on `is_sunlit`: a point Sun (geometric, DE421), a sphere of 6,378 km",
    "satkit": "`shadowfunc` (Montenbruck & Gill) at 60 s, bisected to 1 ms: a sphere, its analytic Sun",
    "orbit-predictor": "`eclipses_since`, to 10 ms: the penumbra of a sphere of 6,371 km, its analytic Sun",
    "plain scan": "vectorised sgp4 at 1 s: a cylinder of 6,378 km, our Sun, chords between seconds",
}
NEAREST = {"skyfield": "half", "satkit": "half", "orbit-predictor": "penumbra", "plain scan": "half"}


def main() -> None:
    """Print two tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "source", nargs="?", default="2024-09-22", help="a file of element sets, or a snapshot"
    )
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--satellites", type=int, default=50, help="how many in bulk")
    parser.add_argument("--out", help="by default a dated folder in benchmarks/results")
    parser.add_argument("--quick", action="store_true", help="one day, one round, three satellites")
    given = parser.parse_args()
    days, rounds, count = (1, 1, 3) if given.quick else (given.days, given.rounds, given.satellites)
    satkit.frametransform.disable_eop_time_warning()
    recipe, _ = make_recipe(given.source, everything=True, days=days)
    low = tuple(e for e in recipe.snapshot.element_sets if regime_of(e) == "leo")
    if not low:
        sys.exit(f"{given.source} holds no satellite in a low orbit: give another file")
    iss = [e for e in read_snapshot("2024-09-22").element_sets if e.catalog_number == 25544]
    figures = {
        "machine": machine(),
        "source": recipe.snapshot.name,
        "days": days,
        "start_ms": recipe.start_ms,
    }
    for title, chosen in (("ISS", iss), (f"{count:,} low satellites", repeated(low, count))):
        figures[title] = compare(chosen, recipe.start_ms, days, rounds)
        print_peers(f"{title}, {days} day{'s' * (days > 1)}", figures[title])
    out = results_folder(given.out)
    (out / "peers.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(f"\nwrote {out / 'peers.json'}")


def compare(element_sets, start_ms, days, rounds):
    """Measure everyone in turn, and how far each is from ours."""
    lines = [write_tle(element_set) for element_set in element_sets]
    runs = {
        "orbittrace": lambda: ours(element_sets, start_ms, days),
        "skyfield": lambda: [with_skyfield(one, start_ms, days) for one in lines],
        "satkit": lambda: [with_satkit(one, start_ms, days) for one in lines],
        "orbit-predictor": lambda: [with_orbit_predictor(one, start_ms, days) for one in lines],
        "plain scan": lambda: [plain_scan(one, start_ms, days) for one in element_sets],
    }
    figures = {name: {"cpu_s": []} for name in runs}
    found = {}
    for _ in range(rounds):
        for name, run in runs.items():
            began, spent, runs_done = time.process_time(), 0.0, 0
            while spent < LEAST_S:
                found[name] = run()
                runs_done += 1
                spent = time.process_time() - began
            figures[name]["cpu_s"].append(spent / runs_done)
    figures["orbittrace"]["boundaries"] = int((found["orbittrace"].depth == "half").sum()) * 2
    for name, depth in NEAREST.items():
        off = disagreement(found[name], element_sets, start_ms, days, depth)
        figures[name] |= {
            "boundaries": len(off),
            "disagreement_s": {"median": float(np.median(off)), "largest": float(off.max())},
        }
    return figures


def print_peers(title, figures):
    """Print a table in Markdown."""
    print(f"\n### {title}\n")
    print(
        "| | what it finds | CPU s | spread | times ours | boundaries | disagreement, s (median, largest) |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    base = median(figures["orbittrace"]["cpu_s"])
    for name, one in figures.items():
        seconds = median(one["cpu_s"])
        spread = (max(one["cpu_s"]) - min(one["cpu_s"])) / seconds
        off = one.get("disagreement_s")
        apart = f"{off['median']:.3f}, {off['largest']:.3f}" if off else "(penumbra and umbra besides)"
        print(
            f"| {name} | {DEFINITIONS[name]} | {seconds:.4f} | {spread:.0%} | {seconds / base:.1f} "
            f"| {one['boundaries']} | {apart} |",
            flush=True,
        )


def ours(element_sets, start_ms, days):
    return find_shadows(element_sets, start_ms, days * DAY_MS, ShadowModel(moon=False))


def disagreement(found, element_sets, start_ms, days, depth):
    """Give how far a peer's boundaries [s], any order, are from ours of one depth under a sphere."""
    shadows = find_shadows(element_sets, start_ms, days * DAY_MS, SPHERE)
    off = []
    for i, times in enumerate(found):
        rows = (shadows.satellite == i) & (shadows.depth == depth)
        edges = np.sort(np.concatenate([shadows.start_ms[rows], shadows.stop_ms[rows]]) / 1000)
        if len(edges) and len(times):
            times = np.asarray(times)
            k = np.clip(np.searchsorted(edges, times), 1, len(edges) - 1)
            nearest = np.minimum(np.abs(edges[k] - times), np.abs(edges[k - 1] - times))
            off.append(nearest[nearest < 120])
    return np.concatenate(off)


def with_skyfield(lines, start_ms, days):
    timescale, ephemeris = skyfield_data()
    satellite = EarthSatellite(*lines, "", timescale)
    start = utc(start_ms)

    def sunlit(t):
        return satellite.at(t).is_sunlit(ephemeris)

    sunlit.step_days = 2 * np.pi / satellite.model.no_kozai / 1440 / 16  # sixteen to a revolution
    t0 = timescale.from_datetime(start)
    times, _ = find_discrete(t0, timescale.from_datetime(start + timedelta(days=days)), sunlit)
    return (times.utc_datetime() - start).astype("timedelta64[us]").astype(float) / 1e6


def utc(start_ms):
    return datetime.fromtimestamp(start_ms / 1000, UTC)


@lru_cache(maxsize=1)
def skyfield_data():
    return load.timescale(builtin=True), load_file(str(files("skyfield_data") / "data" / "de421.bsp"))


def with_satkit(lines, start_ms, days):
    tle = satkit.TLE.from_lines(list(lines))[0]
    start = satkit.time(*utc(start_ms).timetuple()[:3])

    def visible(seconds):
        times = [start + satkit.duration(seconds=float(s)) for s in seconds]
        teme, _ = satkit.sgp4(tle, times, opsmode=satkit.sgp4_opsmode.improved)
        turns = satkit.frametransform.qteme2gcrf(times)
        suns = satkit.sun.pos_gcrf(times)
        return np.array(
            [satkit.sun.shadowfunc(sun, turn * r) for sun, turn, r in zip(suns, turns, teme, strict=True)]
        )

    coarse = np.arange(0.0, days * 86_400 + 1, 60.0)
    lit = visible(coarse) > 0.5
    k = np.flatnonzero(lit[1:] != lit[:-1])
    low, high, left = coarse[k], coarse[k + 1], lit[k]
    for _ in range(16):
        middle = (low + high) / 2
        same = (visible(middle) > 0.5) == left
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return (low + high) / 2


def with_orbit_predictor(lines, start_ms, days):
    predictor = get_predictor_from_tle_lines(lines)
    start = utc(start_ms).replace(tzinfo=None)
    return [
        (edge - start).total_seconds()
        for eclipse in predictor.eclipses_since(start, start + timedelta(days=days))
        for edge in eclipse
    ]


def plain_scan(element_set, start_ms, days):
    """Scan for a cylinder, as one writes it in ten lines."""
    (earth,) = occluders(SPHERE, start_ms, days * DAY_MS)
    t_s = np.arange(0.0, days * 86_400 + 1)
    _, r, _ = states(satrec(element_set), start_ms, t_s)
    sx, sy, sz, _ = earth.sun.at(start_ms, t_s, order=0)[0]
    along = r[:, 0] * sx + r[:, 1] * sy + r[:, 2] * sz
    beside = np.sqrt((r * r).sum(axis=1) - along * along) - 6_378.137
    dark = (along < 0) & (beside < 0)
    k = np.flatnonzero(dark[1:] != dark[:-1])
    return t_s[k] + beside[k] / (beside[k] - beside[k + 1])


if __name__ == "__main__":
    main()
