"""GPT-2 on text: bytes of real source code at CPU scale, a tokenised Hub corpus at GPU scale."""

import hashlib
import sysconfig
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from ..errors import InputError
from .order import sample_ids
from .tasks import Task, adamw

NO_SOURCE = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
VALIDATE_EVERY = 16  # every 16th block is held out
EVALUATION_BLOCKS = 256


class CorpusError(InputError):
    """A corpus that is not there or too small."""


def python_sources() -> bytes:
    """Return the Python standard library's sources, 12 MB of real text that every Python brings along.

    They change with the Python version, so a run records their sha256.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = (p for p in root.rglob("*.py") if not NO_SOURCE & set(p.relative_to(root).parts))
    return b"".join(path.read_bytes() for path in sorted(files))


def cpp_headers() -> bytes:
    """Return the C++ headers of ATen that ship inside torch: the text that the data drift to."""
    root = Path(torch.__file__).parent / "include" / "ATen"
    return b"".join(path.read_bytes() for path in sorted((root).rglob("*.h")))


@lru_cache(maxsize=4)
def _bytes_of(corpus: str) -> tuple[NDArray[np.uint8], str]:
    text = {"python": python_sources, "cpp": cpp_headers}[corpus]()
    if len(text) < 1_000_000:
        raise CorpusError(
            f"the {corpus} corpus holds only {len(text)} bytes on this machine: install the sources of "
            "Python's standard library and torch's headers, or train one's own task"
        )
    return np.frombuffer(text, np.uint8), hashlib.sha256(text).hexdigest()


def _blocks(tokens: NDArray[Any], context: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cut tokens into blocks and hold every 16th out: (training, validation), shape (n, context)."""
    blocks = tokens[: len(tokens) // context * context].reshape(-1, context)
    held_out = np.arange(len(blocks)) % VALIDATE_EVERY == VALIDATE_EVERY - 1
    return blocks[~held_out], blocks[held_out]


def gpt2_task(
    name: str,
    corpora: Sequence[tuple[NDArray[Any], str]],
    drift_at: tuple[int, ...],
    *,
    vocabulary: int,
    context: int,
    width: int,
    layers: int,
    heads: int,
    batch: int,
    **options: Any,
) -> Task:
    """Make a GPT-2 task over one corpus, or over several that take turns at the steps in ``drift_at``."""
    splits = [_blocks(tokens, context) for tokens, _ in corpora]
    if any(len(held_out) == 0 for _, held_out in splits):
        raise CorpusError(f"{name}: a corpus needs at least {VALIDATE_EVERY} blocks of {context} tokens")

    def model() -> torch.nn.Module:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=vocabulary,
            n_positions=context,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            bos_token_id=None,
            eos_token_id=None,
        )
        return GPT2LMHeadModel(config)

    def text(seed: int, step: int) -> torch.Tensor:
        turn = sum(step >= k for k in drift_at)
        blocks = splits[turn % len(splits)][0]
        return torch.from_numpy(blocks[sample_ids(seed, step, batch, len(blocks))].astype(np.int64))

    def loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=tokens).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        blocks = splits[len(drift_at) % len(splits)][1]
        chosen = blocks[:: max(1, len(blocks) // EVALUATION_BLOCKS)][:EVALUATION_BLOCKS].astype(np.int64)
        device = next(model.parameters()).device
        losses = [
            float(loss(model, tokens.to(device))) * len(tokens)
            for tokens in torch.from_numpy(chosen).split(4 * batch)
        ]
        return {"validation_loss": sum(losses) / len(chosen)}

    digest = hashlib.sha256("".join(sha256 for _, sha256 in corpora).encode()).hexdigest()
    return Task(name, model, text, loss, evaluate, optimizer=adamw, data_digest=digest, **options)


def gpt2_tiny(
    drift_at: tuple[int, ...] = (),
    *,
    name: str = "gpt2-tiny",
    width: int = 64,
    layers: int = 2,
    heads: int = 2,
    lr: float = 8e-3,
) -> Task:
    """GPT-2 with 2 layers of width 64 on bytes of Python's own sources; drifts to C++ headers."""
    corpora = [_bytes_of("python")] + [_bytes_of("cpp")] * bool(drift_at)
    return gpt2_task(
        name,
        corpora,
        drift_at,
        vocabulary=256,
        context=64,
        width=width,
        layers=layers,
        heads=heads,
        batch=16,
        lr=lr,
        warmup=0.4,  # of the shares tried, what served the strong baseline best
        final=0.1,
        steps=400,
        step_s=60.0,
    )


def gpt2_small(
    drift_at: tuple[int, ...] = (),
    *,
    data: str = "Salesforce/wikitext:wikitext-103-raw-v1",
    tokenizer: str = "openai-community/gpt2",
) -> Task:
    """GPT-2 small (124M parameters) on a text corpus, for a GPU.

    Parameters
    ----------
    drift_at : tuple of int
        Must be empty: there is one corpus.
    data : str
        What `datasets.load_dataset` takes, ``path`` or ``path:config``: a Hub name or a local folder with a
        ``train`` split that has a ``text`` column.
    tokenizer : str
        What `transformers.AutoTokenizer` takes.
    """
    if drift_at:
        raise CorpusError(
            "gpt2-small has one corpus and cannot drift: leave drift_at empty, or use gpt2-tiny"
        )
    return gpt2_task(
        "gpt2-small",
        [hub_tokens(data, tokenizer)],
        (),
        vocabulary=50_304,  # 50,257 rounded up to a multiple of 64: faster matrix products
        context=1024,
        width=768,
        layers=12,
        heads=12,
        batch=8,
        lr=6e-4,
        warmup=0.02,
        final=0.1,
        steps=10_000,
        step_s=1.0,
    )


def hub_tokens(data: str, tokenizer: str) -> tuple[NDArray[np.uint16], str]:
    """Tokenise the ``text`` column of a data set's ``train`` split, documents parted by the end token.

    Returns
    -------
    ndarray of uint16, shape (n,), and the sha256 of its bytes.
    """
    from datasets import load_dataset
    from transformers import AutoTokenizer

    path, _, config = data.partition(":")
    rows = load_dataset(path, config or None, split="train")
    encode = AutoTokenizer.from_pretrained(tokenizer)

    def tokenise(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"ids": [[*encode(text)["input_ids"], encode.eos_token_id] for text in batch["text"] if text]}

    columns = rows.column_names
    ids = rows.map(tokenise, batched=True, remove_columns=columns, desc="tokenise").with_format("numpy")
    tokens = np.concatenate([np.asarray(row, np.uint16) for row in ids["ids"]])
    return tokens, hashlib.sha256(tokens.tobytes()).hexdigest()
