"""Tensors in files: the safetensors format with a checksum taken on the way, and without a second reading.

Source: the format's description, https://huggingface.co/docs/safetensors (8 bytes of header length, a JSON
header padded to a multiple of 8, then the tensors' bytes without holes).
"""

import json
import mmap
from collections.abc import Mapping
from pathlib import Path

import torch
import xxhash

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.bool: "BOOL",
}  # fmt: skip
_DTYPE_NAMED = {name: dtype for dtype, name in DTYPES.items()}


class DtypeError(ValueError):
    """A tensor of a type that is not written."""


def write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors in the safetensors format and return the file's checksum, taken while it is written.

    Raises
    ------
    DtypeError
        If a tensor has a dtype that this function does not know.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header, offset = {}, 0
    for name, tensor in ordered:
        if tensor.dtype not in DTYPES:
            raise DtypeError(f"{name} has the dtype {tensor.dtype}: known are {', '.join(map(str, DTYPES))}")
        stop = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, stop],
        }
        offset = stop
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    checksum = xxhash.xxh3_128()
    with path.open("wb", buffering=0) as file:
        parts = [len(head).to_bytes(8, "little") + head, *(tensor for _, tensor in ordered)]
        for part in parts:
            view = part if isinstance(part, bytes) else _bytes_view(part)
            checksum.update(view)
            done = 0
            while done < len(view):
                done += file.write(view[done:])
    return checksum.hexdigest()


def _bytes_view(tensor: torch.Tensor) -> memoryview:
    """Return a tensor's bytes, copied only where they lie scattered or on a GPU."""
    flat = tensor.detach().cpu().contiguous().view(-1)
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


def mapped(path: Path) -> bytearray | mmap.mmap:
    """Map a file into memory: its pages are read when they are used, and writing to them changes no file."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return bytearray()  # an empty file cannot be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def checksum_of(path: Path) -> str:
    """Return the XXH3 checksum of a file, 128 bits in hex: it tells damage, and costs less than the reading."""
    return xxhash.xxh3_128_hexdigest(mapped(path))


def parse_safetensors(content: bytearray | mmap.mmap) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file that lies in memory, without copying them.

    Raises
    ------
    ValueError
        If it is none: a header that cannot be read, or tensors that do not fill the file one after the other.
    """
    size = int.from_bytes(content[:8], "little")
    start = 8 + size
    if len(content) < start:
        raise ValueError("the header of a safetensors file is cut off")
    header = json.loads(content[8:start])
    tensors: dict[str, torch.Tensor] = {}
    try:
        header.pop("__metadata__", None)
        for name, facts in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            dtype, shape = _DTYPE_NAMED[facts["dtype"]], [int(length) for length in facts["shape"]]
            first, stop = (8 + size + offset for offset in facts["data_offsets"])
            count = (stop - first) // dtype.itemsize
            if first != start or stop > len(content) or count * dtype.itemsize != stop - first:
                raise ValueError(f"the bytes of {name} do not lie where a safetensors file has them")
            flat = (
                torch.frombuffer(content, dtype=dtype, count=count, offset=first)
                if count
                else torch.empty(0, dtype=dtype)
            )
            tensors[name] = flat.view(shape)
            start = stop
    except (AttributeError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"the header of a safetensors file is wrong: {error}") from None
    if start != len(content):
        raise ValueError("a safetensors file holds bytes that its header does not name")
    return tensors
