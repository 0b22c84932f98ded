"""Files and folders that appear whole or not at all: temporary sibling, fsync, rename."""

import ctypes
import errno
import fcntl
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import FailedError, InputError


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, or a kill at any moment, meets the old content or the new.

    A link is followed and stays, a file keeps its permissions, and a device or a pipe is written to as it is.

    Parameters
    ----------
    path : path
        Its folder must exist.
    data : bytes
    """
    path = Path(path)
    permissions = None
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            path.write_bytes(data)
            return
        permissions = stat.S_IMODE(mode)
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            if permissions is not None:
                os.fchmod(file.fileno(), permissions)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: str | os.PathLike[str]) -> None:
    """Make every file and name below a folder durable."""
    for root, _, files in os.walk(folder):
        for name in files:
            sync_directory(Path(root, name))
        sync_directory(root)


@contextmanager
def new_directory(target: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Build a folder beside its target, and swap it in when the block ends without an error.

    Parameters
    ----------
    target : path
        Where the folder is to appear. An empty folder there counts as absent.
    replace : bool
        Whether a folder that is there may be replaced (the caller has checked that it may go).

    Yields
    ------
    Path
        The temporary sibling to fill.

    Raises
    ------
    InputError
        If the target is there and may not be replaced.
    """
    target = Path(target).absolute()
    if not target.name:
        raise InputError(f"{target} is no folder that can be made: choose another place")
    recover(target)
    if not replace:
        _refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    building = _sibling(target, f"{os.getpid()}.orbittrace-building")
    building.mkdir()
    descriptor = os.open(building, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # held until the end, however it ends: a sign of life
        yield building
        sync_tree(building)
        if replace and target.exists():
            _exchange(building, target)
        else:
            try:
                building.rename(target)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    _refuse_existing(target)
                raise
        sync_directory(target.parent)
    finally:
        os.close(descriptor)
        _remove(building)


def recover(target: str | os.PathLike[str]) -> None:
    """Finish a replacement that was killed between its two renames (systems without an exchange)."""
    target = Path(target).absolute()
    old = _sibling(target, "orbittrace-retired")
    if old.is_dir() and not old.is_symlink():
        if target.exists():
            _remove(old)
        else:
            old.rename(target)


def _refuse_existing(target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} exists already: choose another place, or remove it first")


def _sibling(target: Path, kind: str) -> Path:
    """Name a hidden sibling, which nobody else would make by chance."""
    return target.with_name(f".{target.name}.{kind}")


def _remove_abandoned(target: Path) -> None:
    """Remove what killed processes left of folders that were to become this one, but nothing that is being built."""
    ours = re.compile(re.escape(f".{target.name}.") + r"[0-9]+\.orbittrace-building")
    for path in target.parent.iterdir():
        if ours.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            except BlockingIOError:
                pass  # its process lives
            finally:
                os.close(descriptor)


def _exchange(new: Path, target: Path) -> None:
    """Swap two folders in one step where the system can, else in two renames that `recover` finishes."""
    if _swap_names(new, target):
        return
    old = _sibling(target, "orbittrace-retired")
    target.rename(old)
    try:
        new.rename(target)
    except OSError as error:
        old.rename(target)
        raise FailedError(f"{target} could not be replaced: {error}; the old one is in place") from error
    _remove(old)


def _remove(folder: Path) -> None:
    """Remove a folder that is ours, also where its folders had been made read-only."""
    for root, _, _ in os.walk(folder, topdown=True):
        with suppress(OSError):
            Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _swap_names(a: Path, b: Path) -> bool:
    """Exchange two names atomically: renameat2(RENAME_EXCHANGE) on Linux, renamex_np(RENAME_SWAP) on macOS."""
    exchange = 2
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return libc.renamex_np(os.fsencode(a), os.fsencode(b), exchange) == 0
        if sys.platform == "linux":
            at_cwd = -100
            return libc.renameat2(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0
    return False
