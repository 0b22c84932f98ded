"""Position-addressable data: which samples a step sees is a function of the seed and the step alone.

A resume at step k therefore asks for batch k and reads nothing that it skips, and no random generator
has to be saved for the data.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=8)
def permutation(seed: int, data_pass: int, count: int) -> NDArray[np.int64]:
    """Return the order of one data pass, shape (count,): a permutation keyed by seed and pass."""
    order = np.random.Generator(np.random.Philox(key=[seed % 2**64, data_pass])).permutation(count)
    order.setflags(write=False)
    return order


def sample_counters(step: int, batch: int) -> NDArray[np.int64]:
    """Return how many samples were seen before each one of a step's batch, shape (batch,)."""
    return step * batch + np.arange(batch, dtype=np.int64)


def sample_ids(seed: int, step: int, batch: int, count: int) -> NDArray[np.int64]:
    """Return the samples of a step, shape (batch,): every data pass sees each of ``count`` once.

    A batch that reaches over the end of a pass takes the rest from the next one.

    Examples
    --------
    >>> sorted(np.concatenate([sample_ids(0, step, 2, 5) for step in range(5)]).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """
    counters = sample_counters(step, batch)
    data_pass, place = np.divmod(counters, count)
    ids = np.empty(batch, np.int64)
    for p in range(int(data_pass[0]), int(data_pass[-1]) + 1):
        here = data_pass == p
        ids[here] = permutation(seed, p, count)[place[here]]
    return ids


def uniform_bits(seed: int, counters: NDArray[np.int64], stream: int) -> NDArray[np.uint64]:
    """Return 64 random bits a sample, keyed by (seed, sample counter, stream): for augmentation.

    Source: the finalizer of SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195, figure 16).

    Parameters
    ----------
    seed : int
    counters : ndarray of int64, shape (n,)
    stream : int
        A different one for each use.

    Returns
    -------
    ndarray of uint64, shape (n,)
    """
    key = np.uint64((seed * 0xD1342543DE82EF95 + stream * 0xDABA0B6EB09322E3) % 2**64)
    z = (counters.astype(np.uint64) + key) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
