"""Checkpoints that hold all of a run's state, appear whole or not at all, and are refused when they differ.

One checkpoint is a folder ``step-0000000120`` with

========================  =========================================================================
``model.safetensors``     weights and buffers
``optimizer.safetensors`` the optimizer's tensors, named ``<parameter>.<key>``
``rng.safetensors``       states of torch's generators (CPU, each GPU)
``state.json``            step, schedule position, log position, the rest of the optimizer's and the
                          generators' state, and the run's identity
``XXH128SUMS``            XXH3 checksums, written last; ``xxh128sum -c XXH128SUMS`` checks them too
========================  =========================================================================

It is built in a temporary sibling, fsynced and renamed. Nothing in it is pickled.
"""

import json
import mmap
import random
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

from ..atomic import new_directory
from ..errors import FailedError, InputError
from .tensor_files import DtypeError, mapped, parse_safetensors, write_safetensors

FORMAT = 1
FILES = ("model.safetensors", "optimizer.safetensors", "rng.safetensors", "state.json")
SUMS = "XXH128SUMS"
STATE_KEYS = {
    "format",
    "step",
    "schedule",
    "log_rows",
    "clock",
    "optimizer",
    "scaler",
    "rng",
    "identity",
    "shared",
}


class CheckpointError(FailedError):
    """A checkpoint that is broken, incomplete or not there."""


class CheckpointWarning(UserWarning):
    """A broken checkpoint was skipped."""


class ResumeError(InputError):
    """A checkpoint of another run: the field that differs, as it is there and as it is now."""

    def __init__(self, path: Path, name: str, there: Any, now: Any, *, rebase: bool = False):
        self.path, self.name, self.there, self.now = path, name, there, now
        super().__init__(
            f"{path} belongs to another run: {name} is {there!r} there and {now!r} now: "
            + (
                "train into another folder, give the same value, or insist with --rebase"
                if rebase
                else "train into another folder, or give the same value"
            )
        )


@dataclass(frozen=True)
class State:
    """All of a run's state after ``step`` steps.

    Parameters
    ----------
    step : int
        Steps done: the next one has this number.
    model : dict of str to Tensor
        The model's ``state_dict()``.
    optimizer : dict
        The optimizer's ``state_dict()``.
    schedule : dict
        Position and value of the learning-rate schedule, which is recomputed and must agree.
    log_rows : int
        Rows of the log that belong to these steps.
    clock : dict
        Wall-clock time and the last gap, for runs in real time.
    identity : dict
        What a resume must have in common, in JSON's types.
    scaler : dict, optional
        The gradient scaler's ``state_dict()``.
    rng : dict
        Of each process: what `rng_state` returns, under ``<rank>.<name>``.
    """

    step: int
    model: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, Any]
    schedule: Mapping[str, Any]
    log_rows: int
    clock: Mapping[str, Any] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)
    scaler: Mapping[str, Any] | None = None
    rng: Mapping[str, Any] = field(default_factory=dict)


# Random generators --------------------------------------------------------------------------------


def rng_state() -> dict[str, Any]:
    """Return the state of Python's, NumPy's and torch's global generators as integers and tensors."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002 (models may use it)
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [name, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state |= {f"cuda-{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    return state


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Set the generators to what `rng_state` returned.

    Raises
    ------
    CheckpointError
        If a generator's state is missing or malformed, or the number of GPUs differs.
    """
    try:
        version, words, gauss = state["python"]
        name, keys, position, has_gauss, cached = state["numpy"]
        gpus = [state[f"cuda-{i}"] for i in range(torch.cuda.device_count())]
        random.setstate((version, tuple(words), gauss))
        np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))  # noqa: NPY002
        torch.set_rng_state(state["torch"])
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
    except (KeyError, ValueError, TypeError, RuntimeError, IndexError) as error:
        raise CheckpointError(f"the checkpoint's random generator state is incomplete: {error}") from None


# Saving -------------------------------------------------------------------------------------------


def save(folder: Path, state: State, keep: int = 2) -> Path:
    """Write a checkpoint, then rotate.

    Parameters
    ----------
    folder : Path
        Where the run's checkpoints lie; made if it is not there.
    state : State
    keep : int
        Checkpoints to keep, by step, at least 1: the one just written, and the ones right before it.

    Returns
    -------
    Path
        The checkpoint's folder.
    """
    if keep < 1:
        raise InputError(f"keep must be at least 1, got {keep}")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{state.step:010d}"
    model, shared = _without_shared(state.model)
    tensors, optimizer = _split_optimizer(state.optimizer)
    generators = {name: s for name, s in state.rng.items() if isinstance(s, torch.Tensor)}
    facts = {
        "format": FORMAT,
        "step": state.step,
        "schedule": state.schedule,
        "log_rows": state.log_rows,
        "clock": state.clock,
        "optimizer": optimizer,
        "scaler": state.scaler,
        "rng": {name: s for name, s in state.rng.items() if name not in generators},
        "identity": state.identity,
        "shared": shared,
    }
    try:
        text = json.dumps(facts, allow_nan=False, indent=1).encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"the run's state at step {state.step} does not fit into JSON: {error}"
        ) from None
    try:
        with new_directory(target, replace=True) as building:
            sums = [
                write_safetensors(building / "model.safetensors", model),
                write_safetensors(building / "optimizer.safetensors", tensors),
                write_safetensors(building / "rng.safetensors", generators),
                xxhash.xxh3_128_hexdigest(text),
            ]
            (building / "state.json").write_bytes(text)
            lines = "".join(f"{sum_}  {name}\n" for sum_, name in zip(sums, FILES, strict=True))
            (building / SUMS).write_text(lines)
    except DtypeError as error:
        raise CheckpointError(f"the run's state at step {state.step} cannot be saved: {error}") from None
    rotate(folder, state.step, keep)
    return target


def rotate(folder: Path, step: int, keep: int) -> None:
    """Delete checkpoints of earlier steps but for the last ``keep - 1`` of them, and what kills left over.

    The checkpoint of ``step`` was just written and is whole, so the last whole one always stays.
    """
    earlier = [path for path in checkpoints(folder) if step_of(path) < step]
    for path in earlier[: max(0, len(earlier) - (keep - 1))]:
        path = path.rename(path.with_name(f".{path.name}.deleting"))
        shutil.rmtree(path)
    for leftover in folder.glob(".step-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _without_shared(model: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Keep one name of tied weights: (tensors, {other name: kept name})."""
    kept: dict[str, torch.Tensor] = {}
    shared: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, tensor in model.items():
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if tensor.numel() and key in seen:
            shared[name] = seen[key]
        else:
            seen[key] = name
            kept[name] = tensor
    return kept, shared


def _split_optimizer(optimizer: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Part an optimizer's state_dict into named tensors and JSON that lists them."""
    tensors: dict[str, torch.Tensor] = {}
    state: dict[str, dict[str, Any]] = {}
    for parameter, values in optimizer["state"].items():
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{parameter}.{key}"] = value
                value = "tensor"
            elif isinstance(value, str):
                raise CheckpointError(f"optimizer state {key!r} is a string, which is not supported")
            state.setdefault(str(parameter), {})[key] = value
    return tensors, {"state": state, "param_groups": optimizer["param_groups"]}


# Loading ------------------------------------------------------------------------------------------


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder by step, whole or not."""
    return sorted((p for p in folder.glob("step-*") if re.fullmatch("step-[0-9]+", p.name)), key=step_of)


def step_of(path: Path) -> int:
    """Return the step that a checkpoint's name gives."""
    return int(path.name.removeprefix("step-"))


def newest(folder: Path) -> tuple[Path, State] | None:
    """Load the newest whole checkpoint, if there is any; warn of each broken one that is skipped.

    Raises
    ------
    CheckpointError
        If there are checkpoints and not one of them is whole: a run that went far must not begin anew unasked.
    """
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            return path, load(path)
        except CheckpointError as error:
            warnings.warn(f"{error}: an older checkpoint is tried", CheckpointWarning, stacklevel=2)
    if found:
        raise CheckpointError(
            f"none of the {len(found)} checkpoints in {folder} is whole: remove them to begin the run anew"
        )
    return None


def load(path: Path) -> State:
    """Load one checkpoint onto the CPU.

    Its tensors are the files' own pages, whose checksums were just taken: what is checked is what is used, and it is
    read once.

    Raises
    ------
    CheckpointError
        If a file is missing, truncated or changed, or the state in it is incomplete.
    """
    files = _whole_files(path)
    try:
        facts = json.loads(files["state.json"][:])
        model, optimizer, rng = (parse_safetensors(files[name]) for name in FILES[:3])
    except ValueError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from None
    missing = STATE_KEYS - set(facts)
    if missing or facts["format"] != FORMAT or facts["step"] != step_of(path):
        what = f"lacks {', '.join(sorted(missing))}" if missing else "is of another format or step"
        raise CheckpointError(f"checkpoint {path} is incomplete: state.json {what}")
    model |= {name: model[kept] for name, kept in facts["shared"].items()}
    return State(
        step=facts["step"],
        model=model,
        optimizer=_join_optimizer(path, optimizer, facts["optimizer"]),
        schedule=facts["schedule"],
        log_rows=facts["log_rows"],
        clock=facts["clock"],
        identity=facts["identity"],
        scaler=facts["scaler"],
        rng=facts["rng"] | rng,
    )


def _whole_files(path: Path) -> dict[str, bytearray | mmap.mmap]:
    """Map every file of a checkpoint into memory, and check its bytes there.

    Raises
    ------
    CheckpointError
        Naming the file.
    """
    try:
        lines = (path / SUMS).read_text().splitlines()
        sums = {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines)}
    except (OSError, UnicodeDecodeError):
        raise CheckpointError(f"checkpoint {path} is broken: {SUMS} is missing or unreadable") from None
    for name in FILES:
        if name not in sums or not (path / name).is_file():
            raise CheckpointError(f"checkpoint {path} is broken: {name} is missing")
    files = {}
    for name in FILES:
        try:
            files[name] = mapped(path / name)
        except OSError as error:
            raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from None
        actual = xxhash.xxh3_128_hexdigest(files[name])
        if actual != sums[name]:
            raise CheckpointError(
                f"checkpoint {path} is broken: {name} has the checksum {actual}, it was written with {sums[name]}"
            )
    return files


def _join_optimizer(
    path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]
) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    listed = 0
    for parameter, values in facts["state"].items():
        state[int(parameter)] = {}
        for key, value in values.items():
            if value == "tensor":
                listed += 1
                if f"{parameter}.{key}" not in tensors:
                    raise CheckpointError(f"checkpoint {path} lacks the optimizer's {parameter}.{key}")
                value = tensors[f"{parameter}.{key}"]
            state[int(parameter)][key] = value
    if listed != len(tensors):
        raise CheckpointError(f"checkpoint {path} holds optimizer tensors that state.json does not list")
    groups = [
        {key: tuple(value) if key == "betas" else value for key, value in group.items()}
        for group in facts["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def restore(
    path: Path,
    state: State,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler | None = None,
    rank: int = 0,
) -> None:
    """Put a state into a model, its optimizer and scaler, and the random generators.

    Raises
    ------
    CheckpointError
        If anything that a run needs is missing, superfluous or of another shape.
    """
    groups = optimizer.state_dict()["param_groups"]
    there = [len(group["params"]) for group in state.optimizer["param_groups"]]
    if there != [len(group["params"]) for group in groups]:
        raise CheckpointError(
            f"checkpoint {path} holds an optimizer of {sum(there)} parameters, not the run's"
        )
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    held = state.optimizer["state"]
    if any(index not in range(len(parameters)) for index in held):
        raise CheckpointError(f"checkpoint {path} has optimizer state of parameters that the run lacks")
    for index, values in held.items():
        for key, value in values.items():
            if isinstance(value, torch.Tensor) and value.dim() and value.shape != parameters[index].shape:
                raise CheckpointError(f"checkpoint {path}: {index}.{key} has shape {tuple(value.shape)}")
    if (scaler is None) != (state.scaler is None):
        raise CheckpointError(f"checkpoint {path}: one of the run and the checkpoint has no gradient scaler")
    try:
        model.load_state_dict(dict(state.model), strict=True)
        optimizer.load_state_dict({"state": _copied(held), "param_groups": state.optimizer["param_groups"]})
    except (RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(f"checkpoint {path} does not fit the model: {error}") from None
    if scaler is not None and state.scaler is not None:
        scaler.load_state_dict(dict(state.scaler))
    prefix = f"{rank}."
    set_rng_state({k.removeprefix(prefix): v for k, v in state.rng.items() if k.startswith(prefix)})


def _copied(held: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Copy tensors out of the mapped file, which must not stay the optimizer's memory."""
    return {
        index: {key: v.clone() if isinstance(v, torch.Tensor) else v for key, v in values.items()}
        for index, values in held.items()
    }


def check_identity(path: Path, there: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume another run.

    Raises
    ------
    ResumeError
        Naming the first field that differs.
    """
    for name in [*now, *(name for name in there if name not in now)]:
        before, after = there.get(name), now.get(name)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            key = next(key for key in [*after, *before] if before.get(key) != after.get(key))
            name, before, after = f"{name}.{key}", before.get(key), after.get(key)
        raise ResumeError(path, name, before, after, rebase=True)
