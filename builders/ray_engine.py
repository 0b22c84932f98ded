"""Chunks over a Ray cluster; needs the extra ``ray``.

Element sets go out and encoded shards come back through Ray's object store, so the nodes need this package
and nothing else: no shared file system. Whoever reaches a Ray cluster can run code on it, and even one that
is started here listens on every interface: Ray 2.60 asks for a token by default, older ones do not.
"""

import logging
import os
import socket
from collections.abc import Generator, Sequence
from typing import Any

from ..errors import FailedError, InputError
from .shards import Chunk, Shards, build_chunk
from .workers import DEATHS_PER_CHUNK, Unbuilt, describe

ANSWER_WITHIN_S = 10.0
OBJECT_STORE_BYTES = 256 * 2**20  # a few chunks' shards, about 2 MB each, are under way at a time


def run_on_ray(
    chunks: Sequence[Chunk], workers: int, address: str | None = None
) -> Generator[Shards | Unbuilt]:
    """Build chunks on a Ray cluster.

    Parameters
    ----------
    chunks : sequence of Chunk
    workers : int
        How many processors to use: of this machine without an address, else of the cluster.
    address : str, optional
        Of a running cluster, as for ``ray.init``; a cluster that this process has joined already is used
        as it is.

    Yields
    ------
    Shards or Unbuilt
        One a chunk, in the order in which they end.

    Raises
    ------
    InputError
        If Ray is not installed.
    FailedError
        If there is no cluster at the address.
    """
    try:
        import ray
    except ImportError:
        raise InputError("the engine ray needs Ray: pip install 'orbittrace-data[ray]'") from None
    joined = ray.is_initialized()
    if not joined:
        where: dict[str, Any] = {"address": address}
        if address is not None:
            _require_answer(address)
        else:
            where = {
                "num_cpus": workers,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
            }
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:
            raise FailedError(
                f"Ray cannot be joined at {address or 'this machine'}: {describe(error)}"
            ) from None
    try:
        yield from _run(ray, chunks, workers)
    finally:
        if not joined:
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


def _run(ray, chunks: Sequence[Chunk], workers: int) -> Generator[Shards | Unbuilt]:
    """Keep a few chunks more in flight than there are workers, so that results do not pile up."""
    build = ray.remote(num_cpus=1, max_retries=DEATHS_PER_CHUNK - 1)(build_chunk)
    waiting = iter(chunks)
    in_flight = {}
    while True:
        while len(in_flight) < workers + 2 and (chunk := next(waiting, None)) is not None:
            in_flight[build.remote(chunk)] = chunk
        if not in_flight:
            return
        ended, _ = ray.wait(list(in_flight), num_returns=1)
        for reference in ended:
            chunk = in_flight.pop(reference)
            try:
                yield ray.get(reference)
            except ray.exceptions.RayError as error:  # its worker died too often, or it raised
                yield Unbuilt(chunk, describe(error))
