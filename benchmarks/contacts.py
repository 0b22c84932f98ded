"""What the search for shadow contacts costs, in SGP4 evaluations.

    PYTHONPATH=. python benchmarks/contacts.py [FILE] [--days 7] [--start 2024-09-23] [--satellites N]

CPU time of `find_shadows` divided by the cost of one `sgp4_array` evaluation, which is measured before and after over
satellites of the same file: evaluation-equivalents per satellite-day. Without FILE, the bundled snapshot's satellites
below 2,000 km over 14 days. Three rounds, interleaved; the median is quoted, least and greatest beside it.
"""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.gp import read_element_sets
from orbittrace_data.builders.propagation import julian_date, satrec
from orbittrace_data.builders.satellite_trace import regime_of
from orbittrace_data.builders.shadow import ShadowModel, occluders
from orbittrace_data.builders.snapshot import read_snapshot

ROUNDS = 3


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--days", type=int)
    parser.add_argument("--start", default="2024-09-23")
    parser.add_argument("--satellites", type=int, help="take so many, evenly")
    arguments = parser.parse_args()
    if arguments.file is None:
        every = read_snapshot("2024-09-22").element_sets
        chosen = [element_set for element_set in every if regime_of(element_set) == "leo"]
    else:
        chosen = list(read_element_sets(arguments.file).element_sets)
    if arguments.satellites:
        index = np.linspace(0, len(chosen) - 1, arguments.satellites).round().astype(int)
        chosen = [chosen[i] for i in np.unique(index).tolist()]
    days = arguments.days or (14 if arguments.file is None else 7)
    start_ms = int(datetime.fromisoformat(arguments.start).replace(tzinfo=UTC).timestamp()) * 1000
    span_ms = days * 86_400_000
    print(f"{len(chosen)} satellites x {days} days from {arguments.start}")
    print(
        "| shadows | intervals | one evaluation, ns | microseconds per satellite-day | evaluation-equivalents |"
    )
    print("|---|---|---|---|---|")
    models = {"Earth": ShadowModel(moon=False), "Earth and Moon": ShadowModel()}
    measured = {name: [] for name in models}
    intervals = {}
    for model in models.values():
        occluders(model, start_ms, span_ms)  # the tables of Sun and Moon: once for any number of satellites
    for _ in range(ROUNDS):
        for name, model in models.items():
            before = evaluation_s(chosen, start_ms, span_ms)
            began = time.process_time()
            shadows = find_shadows(chosen, start_ms, span_ms, model)
            spent = (time.process_time() - began) / (len(chosen) * days)
            one = (before + evaluation_s(chosen, start_ms, span_ms)) / 2
            measured[name].append((spent / one, spent * 1e6, one * 1e9))
            intervals[name] = len(shadows.satellite)
    for name, rounds in measured.items():
        ratios = [ratio for ratio, _, _ in rounds]
        print(
            f"| {name} | {intervals[name]:,} | {median(one for _, _, one in rounds):.0f} | "
            f"{median(spent for _, spent, _ in rounds):.0f} | "
            f"{median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f}) |"
        )
    more = [moon[1] / earth[1] - 1 for earth, moon in zip(*measured.values(), strict=True)]
    print(f"\nThe Moon costs {median(more):+.1%} ({min(more):+.1%} to {max(more):+.1%}) in microseconds.")


def evaluation_s(element_sets, start_ms, span_ms):
    """CPU time of one evaluation in arrays of 1,000, over up to 300 of the satellites."""
    step = -(-len(element_sets) // 300)
    models = [satrec(element_set) for element_set in element_sets[::step]]
    times = julian_date(start_ms, np.linspace(0, span_ms / 1000, 1_000))
    models[0].sgp4_array(*times)
    began = time.process_time()
    for model in models:
        model.sgp4_array(*times)
    return (time.process_time() - began) / (1_000 * len(models))


if __name__ == "__main__":
    main()
