"""Chunks over a Ray cluster; needs the extra ``ray``.

Element sets go out and encoded shards come back through Ray's object store, so the nodes need this package
and nothing else: no shared file system.
"""

from collections.abc import Generator, Sequence

from ..ray_cluster import ray_cluster
from .shards import Chunk, Shards, build_chunk
from .workers import DEATHS_PER_CHUNK, Unbuilt, describe


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
    with ray_cluster(address, workers) as ray:
        yield from _run(ray, chunks, workers)


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
