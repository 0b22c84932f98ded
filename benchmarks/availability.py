"""Measure energy traces against a simulation in fixed steps, and plans under misses against plain plans.

Run ``python benchmarks/availability.py``. Times are CPU seconds.
"""

import time

import numpy as np

from orbittrace_data import PowerModel, Trace, energy_trace, load_table, load_trace
from orbittrace_data.forecast import shift_contacts

TRACES = ("leo-25544", "leo-43613", "geo-31306")
REPEATS = 5


def in_fixed_steps(sunlit: Trace, model: PowerModel, step_ms: int) -> tuple[float, np.ndarray]:
    """Step through the same battery with the Sun either up or down: (duty cycle, when it was switched off)."""
    light = sunlit.is_available(np.arange(0, sunlit.span_ms, step_ms)).tolist()
    step_h = step_ms / 3_600_000
    charge, on, running, off_ms = model.initial_soc * model.battery_wh, True, 0, []
    low, high = model.min_soc * model.battery_wh, model.resume_soc * model.battery_wh
    for i, up in enumerate(light):
        net = (model.panel_w if up else 0) - (model.load_w if on else model.idle_w)
        charge += net * step_h * (model.charge_efficiency if net > 0 else 1)
        charge = min(max(charge, 0), model.battery_wh)
        running += on
        if on and charge < low:
            on = False
            off_ms.append((i + 1) * step_ms)
        elif not on and charge >= high:
            on = True
    return running / len(light), np.array(off_ms)


def main() -> None:
    """Print both tables in Markdown."""
    shadows, model = load_table("shadows"), PowerModel.read("cubesat-6u")
    print(
        "| 14 days on cubesat-6u | exact, CPU s | steps of 1 s, CPU s | ratio | switched off: largest difference s |"
    )
    print("|---|---|---|---|---|")
    for trace_id in TRACES:
        trace = load_trace(trace_id)
        began = time.process_time()
        for _ in range(REPEATS):
            energy, _ = energy_trace(trace, shadows, model)
        exact_s = (time.process_time() - began) / REPEATS
        began = time.process_time()
        _, off_ms = in_fixed_steps(trace, model, 1000)
        stepped_s = time.process_time() - began
        worst = f"{len(off_ms)} gaps, not {energy.gap_count}"
        if len(off_ms) == energy.gap_count:
            worst = f"{np.abs(off_ms - energy.gaps[:, 0]).max(initial=0) / 1000:.1f}"
        print(f"| {trace_id} | {exact_s:.3f} | {stepped_s:.2f} | {stepped_s / exact_s:.0f} | {worst} |")

    trace = load_trace("leo-25544")
    actual = shift_contacts(trace, 20, 0, together=False)
    options = {"step_s": 60, "save_s": 20, "restore_s": 20, "margin_s": 60}
    print("\n| plan of 10,000 steps on leo-25544 | CPU ms |\n|---|---|")
    for name, more in (
        ("plain", {}),
        ("under what happened", {"actual": actual}),
        ("under what happened, saving every 20 steps", {"actual": actual, "save_every": 20}),
    ):
        began = time.process_time()
        for _ in range(REPEATS * 4):
            trace.plan(10_000, **options, **more)
        print(f"| {name} | {(time.process_time() - began) / REPEATS / 4 * 1000:.1f} |")


if __name__ == "__main__":
    main()
