"""Local workers: chunks in this process, or over a pool of processes that may die.

SGP4 holds the interpreter's lock, hence processes. Each has one thread; a worker that was killed is
replaced and its chunk tried again; when this process dies, its workers leave too.
"""

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process

from .shards import Chunk, Shards, build_chunk

DEATHS_PER_CHUNK = 3
_ONE_THREAD: dict[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_IO_THREADS"), "1"
)
# glibc would give freed arrays back to the system, and fault their pages in again for the next: 8% of the time.
_KEEP_MEMORY: dict[str, str] = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**27))


@dataclass(frozen=True)
class Unbuilt:
    """A chunk that could not be built, and why."""

    chunk: Chunk
    reason: str

    def __str__(self) -> str:
        first, last = self.chunk.element_sets[0], self.chunk.element_sets[-1]
        return f"chunk {self.chunk.index} (satellites {first.catalog_number} to {last.catalog_number}): {self.reason}"


def available_cpus() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_here(chunks: Iterable[Chunk]) -> Generator[Shards | Unbuilt]:
    """Build chunks in this process, one after the other."""
    for chunk in chunks:
        try:
            yield build_chunk(chunk)
        except Exception as error:  # reported with its chunk when the others are done
            yield Unbuilt(chunk, describe(error))


def run_in_processes(chunks: Iterable[Chunk], workers: int) -> Generator[Shards | Unbuilt]:
    """Build chunks over a pool of processes.

    Parameters
    ----------
    chunks : iterable of Chunk
    workers : int

    Yields
    ------
    Shards or Unbuilt
        One a chunk, in the order in which they end.
    """
    waiting, suspects = deque(chunks), deque()
    deaths: Counter[int] = Counter()
    ended = 0
    with _environment_of_workers():
        while waiting or suspects:
            # A dead worker does not say what it was at: whatever was in flight is tried again, one by one.
            alone = bool(suspects)
            queue, count, in_flight = (suspects, 1, 1) if alone else (waiting, workers, workers + 2)
            lost, ended_now = yield from _until_a_death(queue, count, in_flight)
            ended += ended_now
            suspects.extend(lost)
            for chunk in lost if alone else []:
                deaths[chunk.index] += 1
                if deaths[chunk.index] == DEATHS_PER_CHUNK:
                    suspects.remove(chunk)
                    yield Unbuilt(
                        chunk, f"its worker process died {DEATHS_PER_CHUNK} times (is there enough memory?)"
                    )
            if not ended and deaths.total() >= DEATHS_PER_CHUNK:  # it is not the chunks
                for chunk in (*suspects, *waiting):
                    yield Unbuilt(chunk, "no worker process lives (see above for what they say)")
                return


def describe(error: BaseException) -> str:
    """Say an unforeseen error in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def _until_a_death(
    queue: deque[Chunk], workers: int, in_flight: int
) -> Generator[Shards | Unbuilt, None, tuple[list[Chunk], int]]:
    """Work a queue off until it is empty or a worker dies; return the chunks lost then, and how many ended."""
    ended = 0
    futures: dict[Future, Chunk] = {}
    before = active_children()
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker) as pool:
        try:
            while queue or futures:
                while queue and len(futures) < in_flight:
                    futures[pool.submit(build_chunk, queue[0])] = queue[0]
                    queue.popleft()
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    result = _result(future, futures[future])
                    del futures[future]
                    ended += 1
                    yield result
        except BrokenProcessPool:
            whole = [f for f in futures if f.done() and not isinstance(f.exception(), BrokenProcessPool)]
            for future in whole:
                ended += 1
                yield _result(future, futures.pop(future))
        except BaseException:  # an interrupt: nobody waits for what is in flight
            for worker in set(active_children()) - set(before):
                worker.kill()
            raise
    return list(futures.values()), ended


def _result(future: Future, chunk: Chunk) -> Shards | Unbuilt:
    try:
        return future.result()
    except BrokenProcessPool:
        raise
    except Exception as error:
        return Unbuilt(chunk, describe(error))


@contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread and keep their memory; it is read as they load."""
    wanted = _ONE_THREAD | {name: value for name, value in _KEEP_MEMORY.items() if name not in os.environ}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _prepare_worker() -> None:
    """Leave an interrupt from the keyboard to the parent, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "a worker has a parent"

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
