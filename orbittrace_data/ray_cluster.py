"""Join a Ray cluster, or start one on this machine; needs the extra ``ray``.

Whoever reaches a Ray cluster can run code on it, and even one that is started here listens on every interface: Ray
2.60 asks for a token by default, older ones do not.
"""

import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .errors import FailedError, InputError

ANSWER_WITHIN_S = 10.0
OBJECT_STORE_BYTES = 256 * 2**20  # of a cluster on this machine: what is under way is a few MB


@contextmanager
def ray_cluster(address: str | None, cpus: int | None) -> Generator[Any]:
    """Join a cluster and leave it at the end.

    Parameters
    ----------
    address : str or None
        Of a running cluster, as for ``ray.init``; by default what ``RAY_ADDRESS`` says, else one is started on this
        machine. A cluster that this process has joined already is used as it is.
    cpus : int or None
        Processors of a cluster that is started on this machine; by default all.

    Yields
    ------
    module
        ``ray``.

    Raises
    ------
    InputError
        If Ray is not installed.
    FailedError
        If there is no cluster at the address, or none can be started.
    """
    try:
        import ray
    except ImportError:
        raise InputError("the engine ray needs Ray: pip install 'orbittrace-data[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    where: dict[str, Any] = {"address": address}
    if address is not None:
        _require_answer(address)
    else:
        store = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        where = {"num_cpus": cpus} | store
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        hint = ""
        if address is not None and "RAY_AUTH_MODE" not in os.environ:
            hint = " (a cluster that asks for a token, as Ray's do, wants RAY_AUTH_MODE=token set here too)"
        raise FailedError(f"Ray cannot be joined at {address or 'this machine'}{hint}: {said}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise if nobody listens at a cluster's host and port: Ray itself would wait for ever."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # a word such as "auto", which Ray resolves
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_WITHIN_S).close()
    except (OSError, OverflowError) as error:
        raise FailedError(
            f"there is no Ray cluster at {address} ({error}): see `ray status` on its head node"
        ) from None
