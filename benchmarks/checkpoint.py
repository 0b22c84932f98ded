"""Measure checkpoints of 500 MB against plain safetensors files of the same tensors.

Run ``python benchmarks/checkpoint.py [FOLDER]``. Plain saving is ``safetensors.torch.save_file`` and an fsync; plain
loading is ``load_file`` and a copy of every tensor into the model and its optimizer, because a mapped file is not read
before that. Ours adds checksums, the temporary folder, the rename and, on loading, the check of every byte.

A load is measured in a new process with a new model whose optimizer has no state yet, as a resume finds it: most of
its time goes into memory that the system must hand out first. Wall-clock and CPU time, the two interleaved; the best of
several rounds.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from orbittrace_data.trainers import checkpoint

ROUNDS = 12
PARAMETERS = 41_666_667  # with AdamW's two moments: 500 MB


def make(stepped: bool = True) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return a model of 25 equal tensors, and AdamW that has or has not made a step."""
    torch.manual_seed(0)
    model = torch.nn.ParameterList([torch.randn(PARAMETERS // 25) for _ in range(25)])
    optimizer = torch.optim.AdamW(model.parameters())
    if not stepped:
        return model, optimizer
    for parameter in model:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def drop_cache(folder: Path) -> None:
    """Ask the system to forget the files' pages, so that loading reads the disk."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def main() -> None:
    """Print the table in Markdown."""
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    torch.set_num_threads(1)
    model, optimizer = make()
    tensors = {f"model.{n}": t for n, t in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"{index}.{key}": value for key, value in values.items()}
    size_mb = sum(t.numel() * t.element_size() for t in tensors.values()) / 1e6

    def plain_save(folder: Path) -> None:
        path = folder / "plain.safetensors"
        save_file(tensors, path)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def our_save(folder: Path) -> None:
        rng = {f"0.{name}": state for name, state in checkpoint.rng_state().items()}
        state = checkpoint.State(1, model.state_dict(), optimizer.state_dict(), {}, 0, rng=rng)
        checkpoint.save(folder, state, keep=1)

    def plain_load(folder: Path) -> None:
        loaded = load_file(folder / "plain.safetensors")
        with torch.no_grad():
            for name, parameter in model.state_dict().items():
                parameter.copy_(loaded[f"model.{name}"])
        state = optimizer.state_dict()
        for index in state["param_groups"][0]["params"]:
            keys = ("step", "exp_avg", "exp_avg_sq")
            state["state"][index] = {key: loaded[f"{index}.{key}"].clone() for key in keys}
        optimizer.load_state_dict(state)

    def our_load(folder: Path) -> None:
        path = folder / "step-0000000001"
        checkpoint.restore(path, checkpoint.load(path), model, optimizer)

    def timed(function: Callable[[Path], None], folder: Path) -> tuple[float, float]:
        began, cpu_began = time.perf_counter(), time.process_time()
        function(folder)
        return time.perf_counter() - began, time.process_time() - cpu_began

    def in_a_new_process(function: Callable[[Path], None], folder: Path) -> tuple[float, float]:
        nonlocal model, optimizer
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            model, optimizer = make(stepped=False)
            os.write(theirs, json.dumps(timed(function, folder)).encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as said:
            wall, cpu = json.load(said)
        os.waitpid(child, 0)
        return wall, cpu

    rows = [
        ("save", plain_save, our_save, timed, False),
        ("load, cached", plain_load, our_load, in_a_new_process, False),
        ("load, from disk", plain_load, our_load, in_a_new_process, True),
    ]
    print(f"| {size_mb:.0f} MB | plain s | ours s | ours / plain rate | plain CPU s | ours CPU s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=where) as temporary:
        folder = Path(temporary)
        for name, *functions, measure, cold in rows:
            best, cpu = [float("inf")] * 2, [float("inf")] * 2
            for _ in range(ROUNDS):
                for k, function in enumerate(functions):
                    if cold:
                        drop_cache(folder)
                    wall_s, cpu_s = measure(function, folder)
                    best[k], cpu[k] = min(best[k], wall_s), min(cpu[k], cpu_s)
            rate = f"{best[0]:.3f} | {best[1]:.3f} | {100 * best[0] / best[1]:.0f}%"
            print(f"| {name} | {rate} | {cpu[0]:.3f} | {cpu[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
