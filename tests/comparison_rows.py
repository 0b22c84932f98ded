"""Rows of a made-up study whose true effects are known: what claims, protocol and report are tested on."""

import hashlib
import json

import numpy as np

from orbittrace_data.trainers.records import SCHEMA

MACHINE = json.dumps({"torch": "2.13.0", "device": "cpu TEST", "parameters": 1000, "model": "Model 0"})
STEPS = 160


def row(stage="report", task="gpt2-tiny", method="strong", trace="leo-25544", seed=0, loss=2.0, **more):
    """Make one row; what is not given is plausible."""
    gaps = 0 if trace == "no-gaps" else 4
    key = (stage, task, method, trace, seed, more.get("order_seed"), more.get("persists"), more.get("drift_at"),
           more.get("lr_factor"), more.get("steps"))  # fmt: skip
    curve = np.linspace(5, loss, 40)
    values = dict.fromkeys(SCHEMA.names) | {
        "config": hashlib.sha256(repr(key).encode()).hexdigest(),
        "study": "made-up",
        "stage": stage,
        "task": task,
        "method": method,
        "method_json": "{}",
        "persists": "all",
        "drift_at": [],
        "seed": seed,
        "order_seed": seed,
        "steps": STEPS,
        "step_s": 120.0,
        "lr": 0.008 * more.get("lr_factor", 1.0),
        "lr_factor": 1.0,
        "tuned_on": "leo-44714",
        "warmup": 0.4,
        "precision": "fp32",
        "threads": 1,
        "data_sha256": "drifted" if more.get("drift_at") else "data",
        "trace": trace,
        "split": None if trace.startswith(("pause-", "no-gaps")) else ("dev" if stage == "tune" else "test"),
        "release": None if trace.startswith(("pause-", "no-gaps")) else "1.0.0",
        "duty_cycle": 1.0 if not gaps else 0.63,
        "gaps": gaps,
        "window_steps": 29.0 if gaps else float(STEPS),
        "delta": 17.0 if gaps else 0.0,
        "gap_start_s": [3600.0 * 1.5 * k for k in range(1, gaps + 1)],
        "gap_stop_s": [3600.0 * 1.5 * k + 2100 for k in range(1, gaps + 1)],
        "validation_loss": loss,
        "evaluated_step": [STEPS // 2, STEPS],
        "evaluated_loss": [loss + 0.5, loss],
        "curve_step": list(range(3, STEPS, 4)),
        "curve_active_s": [120.0 * k for k in range(3, STEPS, 4)],
        "curve_wall_s": [120.0 * k + 2100 * (k // 40) * (gaps > 0) for k in range(3, STEPS, 4)],
        "curve_loss": curve.tolist(),
        "weights_sha256": hashlib.sha256(repr(("w", loss)).encode()).hexdigest(),
        "state_sha256": hashlib.sha256(repr(("s", loss)).encode()).hexdigest(),
        "fingerprint": MACHINE,
        "train_s": 5.0,
    }
    return values | more


def base_losses(seeds):
    """Return the final loss of the uninterrupted run of each seed."""
    return 2.0 + np.random.default_rng(6).normal(0, 0.05, seeds)


def study_rows(
    effects, *, seeds=5, traces=("leo-25544", "leo-44233"), noise=0.004, order_noise=0.02, task="gpt2-tiny"
):
    """Make the rows of a study.

    ``effects`` maps (method, persists, drift) to the true difference to uninterrupted; with an effect of
    exactly 0, strong has the reference's own bits.
    """
    rng = np.random.default_rng(7)
    base = base_losses(seeds)
    rows = []
    for drift in sorted({key[2] for key in effects} | {False}):
        drift_at = [STEPS // 2] if drift else []
        for seed in range(seeds):
            shared = {
                "task": task,
                "method": "uninterrupted",
                "trace": "no-gaps",
                "seed": seed,
                "drift_at": drift_at,
            }
            rows.append(row(loss=base[seed] + drift, **shared))
            if not drift:
                order = {"order_seed": seed + 10_000}
                rows.append(row(loss=base[seed] + rng.normal(0, order_noise * np.sqrt(2)), **shared | order))
    for (method, persists, drift), effect in effects.items():
        drift_at = [STEPS // 2] if drift else []
        regime = {"task": task, "method": method, "persists": persists, "drift_at": drift_at}
        for seed in range(seeds):
            for trace in traces:
                loss = base[seed] + drift + effect + (rng.normal(0, noise) if effect else 0.0)
                rows.append(row(trace=trace, seed=seed, loss=loss, **regime))
        for factor, loss in ((0.5, 2.5), (1.0, 2.0), (2.0, 2.7)):
            rows.append(
                row(stage="tune", trace="leo-44714", seed=1000, loss=loss, lr_factor=factor, **regime)
            )
    return rows


def pause_rows(recovered, *, penalty=0.3, seeds=5, every=10, noise=0.004, task="gpt2-tiny"):
    """Make rows under periodic pauses: ``recovered`` maps (persists, delta) to the true recovered share.

    They belong to the reference of `study_rows`.
    """
    rng = np.random.default_rng(8)
    base = base_losses(seeds)
    where = {"task": task, "tuned_on": f"pause:{every * 120}s/120s", "window_steps": float(every)}
    rows = []

    def add(method, persists, delta, effect):
        trace = f"pause-{every * 120}s-{delta * 120}s"
        for seed in range(seeds):
            loss = base[seed] + effect + rng.normal(0, noise)
            rows.append(
                row(
                    method=method,
                    persists=persists,
                    trace=trace,
                    seed=seed,
                    loss=loss,
                    delta=float(delta),
                    **where,
                )
            )

    add("strong", "nothing", min(delta for _, delta in recovered), penalty)
    for (persists, delta), share in recovered.items():
        add("weak+clock+reconstruct", persists, delta, penalty * (1 - share))
    for method, persists in {("strong", "nothing")} | {("weak+clock+reconstruct", p) for p, _ in recovered}:
        for factor in (0.5, 1.0, 2.0):
            given = {
                "method": method,
                "persists": persists,
                "lr_factor": factor,
                "loss": 2.0 + abs(factor - 1),
            }
            rows.append(row(stage="tune", trace=f"pause-{every * 120}s-120s", seed=1000, **given | where))
    return rows
