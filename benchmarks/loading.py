"""Measure what loading costs: fresh processes for the imports, 10 million look-ups for the clocks.

Run ``python benchmarks/loading.py``. Times are CPU seconds, the median of several runs, interleaved.
"""

import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from orbittrace_data import load_trace

PROCESSES = {
    "python alone": "pass",
    "import numpy": "import numpy",
    "import orbittrace_data": "import orbittrace_data",
    "import numpy, pyarrow.parquet": "import numpy, pyarrow.parquet",
    "load_traces()": "from orbittrace_data import load_traces; load_traces()",
}
REPEATS = 7
LOOK_UPS = 10_000_000


def child_cpu_s(code: str) -> float:
    """Run code in a fresh process and return its CPU time [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print both tables in Markdown."""
    runs: dict[str, list[float]] = {name: [] for name in PROCESSES}
    for _ in range(REPEATS):
        for name, code in PROCESSES.items():
            runs[name].append(child_cpu_s(code))
    alone = statistics.median(runs["python alone"])
    print("| process | CPU s | above python alone |\n|---|---|---|")
    for name, seconds in runs.items():
        median = statistics.median(seconds)
        print(f"| {name} | {median:.3f} | {median - alone:.3f} |")

    trace = load_trace("leo-25544")
    times = np.random.default_rng(0).integers(0, trace.span_ms, LOOK_UPS)
    active = times % trace.active_total_ms
    print(f"\n| {LOOK_UPS:,} look-ups | CPU s |\n|---|---|")
    for name, look_up, argument in (
        ("is_available", trace.is_available, times),
        ("next_gap", trace.next_gap, times),
        ("active_ms", trace.active_ms, times),
        ("wall_ms", trace.wall_ms, active),
    ):
        began = time.process_time()
        look_up(argument)
        print(f"| {name} | {time.process_time() - began:.2f} |")


if __name__ == "__main__":
    main()
