"""Data parallel training under ``torchrun``: a handful of collectives, which do nothing in one process."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed.nn
from torch import distributed

# torch.distributed.nn takes the process group of the moment of its import for default arguments: imported by an
# optimizer after the group is made, it would keep the group and its threads alive until the interpreter ends, which
# then aborts now and then. So it is imported first.


def launched() -> bool:
    """Return whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def launched_rank() -> int:
    """Return this process's number as torchrun gave it, before there is a process group."""
    return int(os.environ.get("RANK", "0")) if launched() else 0


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the process group that torchrun's environment describes, if there is one."""
    if not launched() or distributed.is_initialized():
        yield
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    except BaseException:
        distributed.destroy_process_group()  # the others may never come: do not wait for them
        raise
    leave()


def leave() -> None:
    """Leave the process group together: gloo aborts a process whose peers are still at work as it ends."""
    distributed.barrier()
    distributed.destroy_process_group()


def rank() -> int:
    """Return this process's number, 0 outside torchrun."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes, 1 outside torchrun."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def barrier() -> None:
    """Wait until all processes are here."""
    if distributed.is_initialized():
        distributed.barrier()


def average(tensors: Sequence[torch.Tensor]) -> None:
    """Replace each tensor by its mean over all processes, in one exchange."""
    if world_size() == 1:
        return
    flat = torch.cat([t.reshape(-1).float() for t in tensors])
    distributed.all_reduce(flat)
    flat /= world_size()
    for tensor, mean in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(mean.view_as(tensor))


def any_process(flag: bool) -> bool:
    """Return whether any process says so: all must stop at the same step."""
    if world_size() == 1:
        return flag
    said = torch.tensor([float(flag)])
    average([said])
    return bool(said.item())


def gather(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every process's generator states, by rank; tensors of bytes travel as integers."""
    if world_size() == 1:
        return [dict(values)]
    plain = {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    text = json.dumps([[k for k, v in values.items() if isinstance(v, torch.Tensor)], plain]).encode()
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    length = torch.tensor([len(text)], device=device)
    distributed.all_reduce(length, distributed.ReduceOp.MAX)
    padded = torch.frombuffer(bytearray(text.ljust(int(length))), dtype=torch.uint8).to(device)
    everyone = [torch.empty_like(padded) for _ in range(world_size())]
    distributed.all_gather(everyone, padded)
    states = []
    for part in everyone:
        tensors, state = json.loads(part.cpu().numpy().tobytes())
        states.append(
            {k: torch.tensor(v, dtype=torch.uint8) if k in tensors else v for k, v in state.items()}
        )
    return states
