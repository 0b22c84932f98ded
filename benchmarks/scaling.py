"""Measure how builds scale: over satellites, days and workers, and how much memory they take.

Run ``python benchmarks/scaling.py [FILE]`` (a file of element sets or a snapshot; by default a bundled one), or
``orbittrace bench``. It prints tables and writes raw figures, the machine's facts and a plot into a dated folder.

The unit that carries over to another machine is the *evaluation-equivalent*: CPU time over the CPU time of
one SGP4 evaluation in the same run. The floor in the plot is one evaluation a contact: no method that
confirms each contact on SGP4 can need less.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from orbittrace_data.builders.catalogue import Crew, build_data
from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.element_set import ElementSet
from orbittrace_data.builders.propagation import satrec
from orbittrace_data.builders.recipe import Recipe, make_recipe
from orbittrace_data.builders.selection import Selected
from orbittrace_data.builders.workers import available_cpus
from orbittrace_data.timeline import save_figure
from orbittrace_data.trace import DAY_MS

GOLDEN_ANGLE_DEG = 137.50776405
REPEATS = 3
SATELLITES = (1, 10, 100, 1_000, 10_000)  # over one day
DAYS = (1, 3, 10, 30)  # of 100 satellites
BUILD_DAYS = 7
BUILDS = (100, 1_000, 14_000)  # satellites, for memory and workers


def repeated(element_sets: tuple[ElementSet, ...], count: int) -> list[ElementSet]:
    """Take ``count`` satellites evenly from a catalogue, again with shifted nodes where it is too small."""
    step = max(len(element_sets) / count, 1.0)
    chosen = [element_sets[int(i * step) % len(element_sets)] for i in range(count)]
    return [
        replace(
            one,
            catalog_number=100_000 + i,
            ra_of_asc_node_deg=round(
                (one.ra_of_asc_node_deg + i // len(element_sets) * GOLDEN_ANGLE_DEG) % 360, 8
            ),
            line1=None,
            line2=None,
        )
        for i, one in enumerate(chosen)
    ]


def recipe_for(source: str, count: int, days: float) -> Recipe:
    """Return the recipe of a derived build of so many satellites."""
    recipe, _ = make_recipe(source, everything=True, days=days)
    sets = tuple(repeated(recipe.snapshot.element_sets, count))
    selected = tuple(Selected(one.catalog_number, "test") for one in sets)
    return replace(recipe, snapshot=replace(recipe.snapshot, element_sets=sets), selected=selected)


def evaluation_s(element_sets: list[ElementSet], start_ms: int) -> float:
    """Return the CPU time of one SGP4 evaluation over some satellites, a thousand times each [s]."""
    models = [satrec(one) for one in element_sets[:: max(len(element_sets) // 200, 1)]]
    days = np.linspace(0, 1, 1_000)
    start = np.full(len(days), start_ms / DAY_MS + 2_440_587.5)
    began = time.process_time()
    for model in models:
        model.sgp4_array(start, days)
    return (time.process_time() - began) / (len(models) * len(days))


def search(recipe: Recipe) -> dict[str, float]:
    """Search one catalogue, beside the cost of an evaluation in the same minute."""
    sets = list(recipe.snapshot.element_sets)
    unit_s = evaluation_s(sets, recipe.start_ms)
    began = time.process_time()
    shadows = find_shadows(sets, recipe.start_ms, recipe.span_ms, recipe.model)
    cpu_s = time.process_time() - began
    contacts = int(2 * len(shadows.satellite) - shadows.cut_start.sum() - shadows.cut_stop.sum())
    return {
        "satellites": len(sets),
        "days": recipe.span_ms / DAY_MS,
        "cpu_s": cpu_s,
        "evaluation_s": unit_s,
        "contacts": contacts,
        "floor_s": contacts * unit_s,
    }


def build(source: str, count: int, days: float, workers: int) -> dict[str, float]:
    """Build the data files of one catalogue in a process of its own; CPU time and peak memory, workers' too."""
    command = [sys.executable, __file__, source, "--child", str(count), str(days), str(workers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def child(source: str, count: int, days: float, workers: int) -> None:
    """Build, and print what it took."""
    recipe = recipe_for(source, count, days)
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        built = build_data(recipe, Path(folder), Crew(workers))
        wall_s = time.monotonic() - began
        size = sum(file.bytes for one in built.chunks for file in one.files)
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime for a, b in zip(after, before, strict=True))
    workers_mb = after[1].ru_maxrss / (1024 if sys.platform == "linux" else 1024**2) if workers > 1 else 0.0
    figures = {"satellites": count, "days": days, "workers": workers, "wall_s": wall_s, "cpu_s": cpu_s}
    figures |= {"peak_mb": peak_mb(after[0]), "worker_peak_mb": workers_mb, "bytes": size}
    print(json.dumps(figures))


def peak_mb(usage: resource.struct_rusage) -> float:
    """Return this process's greatest memory; Linux would count in what its parent had when it began it."""
    status = Path("/proc/self/status")
    if status.is_file():
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line) / 1024
        )
    return usage.ru_maxrss / 1024**2


def results_folder(out: str | Path | None) -> Path:
    """Make the folder that figures go into, by default one of today's."""
    today = datetime.now(UTC).date().isoformat()
    folder = Path(out) if out else Path(__file__).parent / "results" / today
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def machine() -> dict[str, object]:
    """Return what the figures were measured on and with."""
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    packages = ("sgp4", "numpy", "pyerfa", "pyarrow", "orbittrace-data")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": names[0] if names else platform.processor(),
        "processors": available_cpus(),
        "load": os.getloadavg(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []


def _version(name: str) -> str:
    try:
        return version(name)
    except ImportError:  # a checkout that is not installed
        return "checkout"


def print_searches(title: str, runs: dict[float, list[dict[str, float]]]) -> None:
    """Print a curve in Markdown, the median of the repeats."""
    print(f"\n### {title}\n")
    print(
        "| satellites | days | CPU s | spread | us per satellite-day | evaluations per satellite-day | x floor |"
    )
    print("|" + "---:|" * 7)
    for repeats in runs.values():
        one = repeats[0]
        seconds = [r["cpu_s"] for r in repeats]
        median, amount = statistics.median(seconds), one["satellites"] * one["days"]
        equivalents = statistics.median(r["cpu_s"] / r["evaluation_s"] for r in repeats)
        over = statistics.median(r["cpu_s"] / max(r["floor_s"], 1e-12) for r in repeats)
        spread = (max(seconds) - min(seconds)) / median
        print(
            f"| {one['satellites']:,} | {one['days']:g} | {median:.3g} | {spread:.0%} | {median / amount * 1e6:,.0f} "
            f"| {equivalents / amount:,.0f} | {over:.1f} |"
        )


def print_builds(title: str, builds: list[dict[str, float]]) -> None:
    """Print builds in Markdown."""
    alone = {(b["satellites"], b["days"]): b["cpu_s"] for b in builds if b["workers"] == 1}
    print(f"\n### {title}\n")
    print(
        "| satellites | days | workers | CPU s | CPU of one worker / CPU | wall s | peak MB | of a worker | MB written |"
    )
    print("|" + "---:|" * 9)
    for b in builds:
        share = alone.get((b["satellites"], b["days"]), float("nan")) / b["cpu_s"]
        print(
            f"| {b['satellites']:,} | {b['days']:g} | {b['workers']} | {b['cpu_s']:.1f} | {share:.2f} | {b['wall_s']:.1f} "
            f"| {b['peak_mb']:.0f} | {b['worker_peak_mb']:.0f} | {b['bytes'] / 1e6:.1f} |"
        )


def plot(figures: dict, path: Path) -> None:
    """Draw the curves, log-log: contacts above the floor of SGP4, and the rate over workers.

    All of it is CPU time, the rate too: what others do on the machine meanwhile must not show.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    for axes, name, fixed in (
        (figure.add_subplot(1, 3, 1), "satellites", "over one day"),
        (figure.add_subplot(1, 3, 2), "days", f"of {figures['days']['1'][0]['satellites']:,} satellites"),
    ):
        curves = [statistics_of(runs) for runs in figures[name].values()]
        at = [repeats[0][name] for repeats in figures[name].values()]
        axes.loglog(at, [c[0] for c in curves], "o-", color="tab:blue", label="every contact of P, H and U")
        axes.loglog(
            at, [c[1] for c in curves], "--", color="tab:gray", label="floor: one SGP4 evaluation a contact"
        )
        axes.set_ylim(bottom=min(c[1] for c in curves) / 8)  # room for the legend
        axes.set_xlabel(f"{name}, {fixed}")
        axes.set_ylabel("CPU time [s]")
        axes.grid(alpha=0.3, which="both")
        axes.legend(frameon=False, loc="lower right")
    axes = figure.add_subplot(1, 3, 3)
    largest = max(build["satellites"] for build in figures["builds"])
    builds = [build for build in figures["builds"] if build["satellites"] == largest]
    workers = [build["workers"] for build in builds]
    rates = [largest * n / build["cpu_s"] for n, build in zip(workers, builds, strict=True)]
    axes.loglog(workers, rates, "o-", color="tab:blue", label="written and digested")
    ideal = [rates[0] * n for n in workers]
    axes.loglog(workers, ideal, "--", color="tab:gray", label="one worker's, times N")
    axes.set_xticks(workers, [str(n) for n in workers])
    axes.set_yticks(ideal, [f"{rate:,.0f}" for rate in ideal])
    axes.minorticks_off()
    axes.set_xlabel(f"workers, {largest:,} satellites over {builds[0]['days']:g} days")
    axes.set_ylabel("satellites a second, a processor to each worker")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False, loc="lower right")
    save_figure(figure, path)


def statistics_of(runs: list[dict[str, float]]) -> tuple[float, float]:
    """Return the medians of a point's CPU time and of its floor."""
    return statistics.median(r["cpu_s"] for r in runs), statistics.median(r["floor_s"] for r in runs)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "source", nargs="?", default="2024-09-22", help="a file of element sets, or a snapshot"
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="by default a dated folder in benchmarks/results"
    )
    parser.add_argument("--quick", action="store_true", help="up to 100 satellites, once")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        count, days, workers = given.child
        child(given.source, int(count), float(days), int(workers))
        return
    limit, repeats = (100, 1) if given.quick else (max(BUILDS), REPEATS)
    curves = {
        "satellites": {n: recipe_for(given.source, n, 1) for n in SATELLITES if n <= limit},
        "days": {d: recipe_for(given.source, min(100, limit), d) for d in DAYS if not given.quick or d <= 3},
    }
    find_shadows(curves["satellites"][1].snapshot.element_sets, curves["satellites"][1].start_ms, DAY_MS)
    figures: dict = {
        "machine": machine(),
        "source": Path(given.source).name,
        "satellites": {},
        "days": {},
        "builds": [],
    }
    for _ in range(repeats):
        for name, recipes in curves.items():
            for at, recipe in recipes.items():
                figures[name].setdefault(str(at), []).append(search(recipe))
    counts = [n for n in BUILDS if n <= limit]
    figures["builds"] = [build(given.source, n, BUILD_DAYS, 1) for n in counts]
    workers = sorted({w for w in (2, 4, 8, 16, 32, 64, available_cpus()) if 1 < w <= available_cpus()})
    figures["builds"] += [build(given.source, counts[-1], BUILD_DAYS, w) for w in workers]

    out = results_folder(given.out)
    (out / "scaling.json").write_text(json.dumps(figures, indent=1) + "\n")
    plot(figures, out / "scaling.svg")
    facts = figures["machine"]
    print(
        f"{facts['processor']}, {facts['processors']} processors, load {facts['load'][0]:.1f}; {given.source}"
    )
    print_searches("Contacts, over satellites", figures["satellites"])
    print_searches("Contacts, over days", figures["days"])
    print_builds("Whole builds, written and digested", figures["builds"])
    print(f"\nwrote {out}")


if __name__ == "__main__":
    main()
