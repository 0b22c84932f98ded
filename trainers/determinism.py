"""What a run's bits depend on beside its config: pinned while it runs, recorded and compared."""

import hashlib
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..errors import InputError


class DeviceError(InputError):
    """A device that is not there."""


def usable_device(name: str) -> torch.device:
    """Return a device by its name.

    Raises
    ------
    DeviceError
        If torch knows no such device, or this machine has none.

    Examples
    --------
    >>> usable_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        said = str(error).strip().splitlines()[0].partition(". ")[0]
        raise DeviceError(
            f"device {name!r} cannot be used here ({said}): take cpu, or cuda where there is a GPU"
        ) from None
    return device


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Pin the CPU threads and choose deterministic algorithms, and put both back at the end."""
    before = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it, before its first use
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(deterministic)


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (the global generator is what a model may use)
    torch.manual_seed(seed)


def fingerprint(model: torch.nn.Module, device: torch.device, world: int) -> dict[str, Any]:
    """Return what decides bits beside the config: model, software, device, number of processes.

    Equal fingerprints and configs give equal bits on a CPU. On a GPU that holds for one kind of GPU, as
    long as every operation has a deterministic algorithm (torch raises where one has none).
    """
    shapes = [(name, str(t.dtype), list(t.shape)) for name, t in model.state_dict().items()]
    cuda = device.type == "cuda"
    return {
        "model": f"{type(model).__name__} {hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]}",
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device)
        if cuda
        else f"cpu {torch.backends.cpu.get_cpu_capability()}",
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "world_size": world,
    }


def tensors_sha256(tensors: Mapping[str, Any]) -> str:
    """Return the sha256 of tensors in (nested) dicts: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors, key=str):
        value = tensors[name]
        if isinstance(value, Mapping):
            digest.update(f"{name}:{tensors_sha256(value)}".encode())
        elif isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous().view(-1)
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        else:
            digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()
