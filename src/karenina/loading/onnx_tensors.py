"""Tensors stored in an ONNX file, or in a file beside it.

Enters: a `TensorProto` of an untrusted model. Leaves: a numpy array: floats as float64 (exact from every float
type), whole numbers as int64, truth values as bool. Files outside the model's folder are never opened.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from onnx import TensorProto, numpy_helper

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.onnx_node import FLOATS, Constant

__all__ = ["MALFORMED", "constant"]

# What numpy, protobuf and our own operators raise on tensors and nodes that make no sense.
MALFORMED = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
    RuntimeError,  # a path that is a loop of links
    TypeError,
    ValueError,
)

_WHOLE_NUMBERS = {
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.INT16,
    TensorProto.INT8,
    TensorProto.UINT64,
    TensorProto.UINT32,
    TensorProto.UINT16,
    TensorProto.UINT8,
    TensorProto.BOOL,
}


def constant(tensor: TensorProto, path: Path) -> Constant:
    """A tensor's numbers; `path` is the model's file."""
    what = f"{path}: its tensor {tensor.name!r}"
    if tensor.data_type not in FLOATS | _WHOLE_NUMBERS:
        known = tensor.data_type in TensorProto.DataType.values()
        kind = TensorProto.DataType.Name(tensor.data_type) if known else str(tensor.data_type)
        raise UnsupportedModel(f"{what} has the type {kind}, which karenina does not read")
    try:
        array = numpy_helper.to_array(_with_data(tensor, path))
    except MALFORMED as error:
        raise InputError(f"{what} is damaged: {error}") from error
    if tensor.data_type == TensorProto.BOOL:
        return array.astype(bool)
    if tensor.data_type not in FLOATS:
        return array.astype(np.int64)
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise InputError(f"{what} holds NaN")
    return numbers


def _with_data(tensor: TensorProto, path: Path) -> TensorProto:
    """The tensor itself, or a copy with the data that is stored in a file beside the model."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    fields = {entry.key: entry.value for entry in tensor.external_data}
    folder = path.resolve().parent
    file = (folder / fields.get("location", "")).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        raise ValueError(f"it is stored in {fields.get('location', '')!r}, which is no file in the model's folder")
    copy = TensorProto(data_type=tensor.data_type, dims=tensor.dims, name=tensor.name)
    copy.raw_data = _slice_of(file, int(fields.get("offset", 0)), fields.get("length"))
    return copy


def _slice_of(file: Path, offset: int, length: str | None) -> bytes:
    with file.open("rb") as stream:
        available = stream.seek(0, io.SEEK_END) - offset
        size = available if length is None else int(length)
        if offset < 0 or not 0 <= size <= available:
            raise ValueError(f"{file.name} does not hold {size} bytes from byte {offset}")
        stream.seek(offset)
        return stream.read(size)
