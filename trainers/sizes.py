"""GPT-2 in two more sizes, since the paper's one positive claim is about large models."""

from .tasks import Task
from .text import gpt2_tiny


def gpt2_narrow(drift_at: tuple[int, ...] = ()) -> Task:
    """GPT-2 with 1 layer of width 32: 23 thousand parameters."""
    return gpt2_tiny(drift_at, width=32, layers=1, heads=2, lr=8e-3)


def gpt2_wide(drift_at: tuple[int, ...] = ()) -> Task:
    """GPT-2 with 4 layers of width 128: 0.8 million parameters."""
    return gpt2_tiny(drift_at, width=128, layers=4, heads=4, lr=4e-3)
