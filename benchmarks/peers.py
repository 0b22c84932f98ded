"""What others take for the same shadow contacts, and how far they are from ours.

    pip install -e '.[bench]'
    PYTHONPATH=. python benchmarks/peers.py [--days 7] [--rounds 3]

One satellite (ISS) and, for the packages that work on many, the bundled snapshot's satellites below 2,000 km; the
Earth's shadow only. All run in turn, several rounds; CPU times are medians. Each peer has its own definition of the
shadow, so its boundaries are compared with ours under the nearest one: their disagreement says what its choices and its
step cost, not only its errors.

skyfield        find_discrete on is_sunlit: a point Sun (geometric, DE421) and a sphere of 6,378 km
satkit          shadowfunc (Montenbruck & Gill) at 60 s, then bisection to 1 ms: a sphere, its analytic Sun
orbit-predictor eclipses_since: the penumbra cone of a 6,371 km sphere, its analytic Sun, to 10 ms
plain scan      vectorised sgp4 at 1 s, a cylinder of 6,378 km and our own Sun; chords between seconds
"""

import argparse
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from statistics import median

import numpy as np
import satkit
from orbit_predictor.sources import get_predictor_from_tle_lines
from skyfield.almanac import find_discrete
from skyfield.api import EarthSatellite, load, load_file

from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.propagation import satrec, states
from orbittrace_data.builders.satellite_trace import regime_of
from orbittrace_data.builders.shadow import ShadowModel, occluders
from orbittrace_data.builders.snapshot import read_snapshot

START = datetime(2024, 9, 23, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000
SPHERE = ShadowModel(earth="sphere", moon=False)


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    days = arguments.days
    satkit.frametransform.disable_eop_time_warning()
    satellites = [e for e in read_snapshot("2024-09-22").element_sets if regime_of(e) == "leo"]
    iss = [element_set for element_set in satellites if element_set.catalog_number == 25544]
    peers = {
        "orbittrace": (ours, None),
        "skyfield": (with_skyfield, "half"),
        "satkit": (with_satkit, "half"),
        "orbit-predictor": (with_orbit_predictor, "penumbra"),
        "plain scan, 1 s": (plain_scan, "half"),
    }
    for title, chosen, names in (
        (f"ISS, {days} days", iss, list(peers)),
        (
            f"{len(satellites)} low satellites, {days} days",
            satellites,
            ["orbittrace", "satkit", "plain scan, 1 s"],
        ),
    ):
        spent = {name: [] for name in names}
        found = {}
        for _ in range(arguments.rounds):
            for name in names:
                began = time.process_time()
                if name == "orbittrace":
                    found[name] = ours(chosen, days)
                else:
                    found[name] = [peers[name][0](element_set, days) for element_set in chosen]
                spent[name].append(time.process_time() - began)
        base = median(spent["orbittrace"])
        print(
            f"\n{title}\n\n| | CPU s | times ours | boundaries | disagreement, s (median, largest) |\n|---|---|---|---|---|"
        )
        for name in names:
            seconds = median(spent[name])
            line = f"| {name} | {seconds:.4f} | {seconds / base:.1f} |"
            if name == "orbittrace":
                count = int((found[name].depth == "half").sum()) * 2
                print(line + f" {count} (and as many of penumbra and umbra) | |")
                continue
            matched, off = disagreement(found[name], chosen, days, peers[name][1])
            print(line + f" {matched} | {np.median(off):.3f}, {off.max():.3f} |", flush=True)


def ours(element_sets, days):
    return find_shadows(element_sets, START_MS, days * 86_400_000, ShadowModel(moon=False))


def disagreement(found, element_sets, days, depth):
    """Compare a peer's boundaries [s], any order, with ours of one depth under a sphere."""
    shadows = find_shadows(element_sets, START_MS, days * 86_400_000, SPHERE)
    off = []
    for i, times in enumerate(found):
        rows = (shadows.satellite == i) & (shadows.depth == depth)
        edges = np.sort(np.concatenate([shadows.start_ms[rows], shadows.stop_ms[rows]]) / 1000)
        if len(edges) and len(times):
            times = np.asarray(times)
            k = np.clip(np.searchsorted(edges, times), 1, len(edges) - 1)
            nearest = np.minimum(np.abs(edges[k] - times), np.abs(edges[k - 1] - times))
            off.append(nearest[nearest < 120])
    joined = np.concatenate(off)
    return len(joined), joined


def with_skyfield(element_set, days):
    timescale, ephemeris = skyfield_data()
    satellite = EarthSatellite(element_set.line1, element_set.line2, element_set.name, timescale)

    def sunlit(t):
        return satellite.at(t).is_sunlit(ephemeris)

    sunlit.step_days = 1 / element_set.mean_motion_rev_per_day / 16  # sixteen to a revolution
    t0 = timescale.from_datetime(START)
    times, _ = find_discrete(t0, timescale.from_datetime(START + timedelta(days=days)), sunlit)
    return (times.utc_datetime() - START).astype("timedelta64[us]").astype(float) / 1e6


@lru_cache(maxsize=1)
def skyfield_data():
    return load.timescale(builtin=True), load_file(str(files("skyfield_data") / "data" / "de421.bsp"))


def with_satkit(element_set, days):
    tle = satkit.TLE.from_lines([element_set.name, element_set.line1, element_set.line2])[0]
    start = satkit.time(START.year, START.month, START.day)

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


def with_orbit_predictor(element_set, days):
    predictor = get_predictor_from_tle_lines((element_set.line1, element_set.line2))
    start = START.replace(tzinfo=None)
    return [
        (edge - start).total_seconds()
        for eclipse in predictor.eclipses_since(start, start + timedelta(days=days))
        for edge in eclipse
    ]


def plain_scan(element_set, days):
    """Scan for a cylinder, as one writes it in ten lines."""
    (earth,) = occluders(SPHERE, START_MS, days * 86_400_000)
    t_s = np.arange(0.0, days * 86_400 + 1)
    _, r, _ = states(satrec(element_set), START_MS, t_s)
    sx, sy, sz, _ = earth.sun.at(START_MS, t_s, order=0)[0]
    along = r[:, 0] * sx + r[:, 1] * sy + r[:, 2] * sz
    beside = np.sqrt((r * r).sum(axis=1) - along * along) - 6_378.137
    dark = (along < 0) & (beside < 0)
    k = np.flatnonzero(dark[1:] != dark[:-1])
    return t_s[k] + beside[k] / (beside[k] - beside[k + 1])


if __name__ == "__main__":
    main()
