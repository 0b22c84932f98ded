"""Files are read and written beside the safetensors library's own reader and writer."""

import json

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orbittrace_data.trainers.tensor_files import (
    DTYPES,
    DtypeError,
    checksum_of,
    mapped,
    parse_safetensors,
    write_safetensors,
)

SHAPES = st.lists(st.integers(0, 4), max_size=3)
TENSORS = st.dictionaries(st.text(max_size=5), st.tuples(SHAPES, st.sampled_from(list(DTYPES))), max_size=6)


def made(facts):
    generator = torch.Generator().manual_seed(1)
    return {
        name: (torch.rand(shape, generator=generator) * 100).to(dtype)
        for name, (shape, dtype) in facts.items()
        if name != "__metadata__"  # the format keeps this name to itself
    }


def same(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert tensor.dtype == b[name].dtype
        assert torch.equal(tensor, b[name])


@given(TENSORS)
@settings(max_examples=50, deadline=None)
def test_the_library_reads_what_is_written_and_is_read_itself(tmp_path_factory, facts):
    tensors, folder = made(facts), tmp_path_factory.mktemp("files")
    digest = write_safetensors(folder / "ours", tensors)
    assert digest == checksum_of(folder / "ours")
    same(safetensors.torch.load_file(folder / "ours"), tensors)
    same(parse_safetensors(mapped(folder / "ours")), tensors)
    safetensors.torch.save_file(
        tensors, folder / "theirs", metadata={"from": "elsewhere"} if tensors else None
    )
    same(parse_safetensors(mapped(folder / "theirs")), tensors)


def test_what_is_done_to_loaded_tensors_changes_no_file(tmp_path):
    write_safetensors(tmp_path / "x", {"a": torch.arange(6.0)})
    loaded = parse_safetensors(mapped(tmp_path / "x"))
    loaded["a"] += 1
    assert parse_safetensors(mapped(tmp_path / "x"))["a"].tolist() == list(range(6))


def test_a_checksum_is_one_of_the_bytes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    assert (
        checksum_of(path) == "99aa06d3014798d86001c324468d497f"
    )  # XXH3_128bits of nothing, xxhash's own test
    path.write_bytes(b"1")
    assert checksum_of(path) != "99aa06d3014798d86001c324468d497f"


def file_of(header, data=b"12345678", size=None):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(head) if size is None else size).to_bytes(8, "little") + head + data


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"123",
        file_of({"a": ONE}, size=10**9),
        file_of(b"{"),
        file_of([1]),
        file_of({"a": 1}),
        file_of({"a": {**ONE, "dtype": "F31"}}),
        file_of({"a": {**ONE, "shape": [3]}}),
        file_of({"a": {**ONE, "shape": ["x"]}}),
        file_of({"a": {**ONE, "data_offsets": [0, 16]}}),
        file_of({"a": {**ONE, "data_offsets": [4, 8], "shape": [1]}}),
        file_of({"a": {**ONE, "data_offsets": [8, 0], "shape": [-2]}}),
        file_of({"a": {**ONE, "data_offsets": [0, 7]}}, b"1234567"),
        file_of({"a": ONE, "b": {**ONE, "data_offsets": [4, 12]}}, b"123456789012"),
        file_of({"a": ONE}, b"123456789"),
    ],
)
def test_what_is_no_such_file_is_refused_as_the_library_refuses_it(content):
    with pytest.raises(safetensors.SafetensorError):
        safetensors.torch.load(content)
    with pytest.raises(ValueError):  # noqa: PT011 (the library's words differ from case to case)
        parse_safetensors(bytearray(content))


def test_a_type_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(DtypeError, match=r"a has the dtype torch\.complex64: known are"):
        write_safetensors(tmp_path / "x", {"a": torch.zeros(1, dtype=torch.complex64)})
