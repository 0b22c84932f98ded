"""Measure what the training loop costs above a bare PyTorch loop of the same model, data and schedule.

Run ``python benchmarks/loop.py``. CPU time of one thread, the two interleaved; the best of several rounds. Both
make the model, train, and evaluate once; ours also keeps the clocks and the log, crosses the trace's gaps and
takes the digests of the final state. Both must end with the same weights.
"""

import time

import torch

from orbittrace_data import load_trace
from orbittrace_data.trainers.config import Config
from orbittrace_data.trainers.determinism import tensors_sha256
from orbittrace_data.trainers.loop import train
from orbittrace_data.trainers.schedule import warmup_cosine

ROUNDS = 5
STEPS = {"gpt2-tiny": 200, "resnet-mnist": 300}


def bare(config: Config) -> str:
    """Train with nothing but PyTorch; return the digest of the weights."""
    task, steps = config.resolved_task, config.plan.steps
    torch.manual_seed(config.seed)
    model = task.model()
    optimizer = task.optimizer(model.parameters(), task.lr)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = task.lr * warmup_cosine(step, steps, round(task.warmup * steps), task.final)
        loss = task.loss(model, task.batch(config.seed, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), task.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        task.evaluate(model)
    return tensors_sha256(model.state_dict())


def ours(config: Config) -> str:
    """Train with the loop; return the digest of the weights."""
    return train(config).weights_sha256


def main() -> None:
    """Print the table in Markdown."""
    torch.set_num_threads(1)
    trace = load_trace("leo-25544")
    print("| task | steps | gaps | bare CPU s | loop CPU s | above bare |\n|---|---|---|---|---|---|")
    for name, steps in STEPS.items():
        config = Config(name, trace, steps=steps)
        best, digests = [float("inf")] * 2, set()
        for _ in range(ROUNDS):
            for k, run in enumerate((bare, ours)):
                began = time.process_time()
                digests.add(run(config))
                best[k] = min(best[k], time.process_time() - began)
        assert len(digests) == 1, "the two loops do not train the same"
        above = 100 * (best[1] / best[0] - 1)
        gaps = config.plan.window_count - 1
        print(f"| {name} | {steps} | {gaps} | {best[0]:.2f} | {best[1]:.2f} | {above:+.1f}% |", flush=True)


if __name__ == "__main__":
    main()
