"""Saving tensors to checkpoints and restoring them, by the task that an op runs on.

The files are V2 checkpoints, see `checkpoint`. `Save` and `Restore` and their `Slices` twins are
the ops of TensorFlow's first releases; they write and read the same files, `Restore` those of the
first format too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.checkpoint.bundle_writer import Saved, merge_bundles, write_bundle
from sparkflow_runtime.checkpoint.opening import (
    CheckpointTensors,
    read_checkpoint,
    require_dtype,
)
from sparkflow_runtime.checkpoint.tensor_slice import parse_spec
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.files import system
from sparkflow_runtime.ops.inference import unknown
from sparkflow_runtime.ops.op import CHECKPOINTS, Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, type_attr
from sparkflow_runtime.shapes import Shape


class _FileOp(Op):
    reaches = frozenset({CHECKPOINTS})
    stateful = True
    kernels = {"CPU": None}
    gradient = not_differentiable


class _Saves(_FileOp):
    exact_inputs = True
    keeps_inputs = False

    def infer(self, node: Inference) -> Sequence[Shape]:
        """No output."""
        node.with_rank(0, 0, "The file name")
        node.with_rank(1, 1, "tensor_names")
        return []


@register
class SaveV2(_Saves):
    """Writes the tensors to a new checkpoint, all or nothing.

    A text in `shape_and_slices` other than "" says that its tensor is a part of a larger one.
    """

    inputs = "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes"
    paths = ("prefix",)
    attrs = {"dtypes": list_attr("type", minimum=1)}

    def compute(
        self,
        xp: Any,
        prefix: Array,
        tensor_names: Array,
        shape_and_slices: Array,
        *tensors: Array,
        dtypes: list[DType],
    ) -> None:
        """Nothing.

        Raises:
            InvalidArgumentError: The numbers of names, slices and tensors differ, or a slice does
                not have the shape of its tensor.
            OpError: As `write_bundle`.
        """
        names, specs = _texts(tensor_names), _texts(shape_and_slices)
        write_bundle(_scalar("prefix", prefix), _to_save(names, specs, tensors, dtypes))


@register
class Save(_Saves):
    """`SaveV2` of whole tensors only."""

    inputs = "filename: string, tensor_names: string, data: T"
    paths = ("filename",)
    attrs = {"T": list_attr("type", minimum=1)}

    def compute(
        self, xp: Any, filename: Array, tensor_names: Array, *data: Array, T: list[DType]
    ) -> None:
        """Nothing.

        Raises:
            OpError: As `SaveV2`.
        """
        names = _texts(tensor_names)
        write_bundle(_scalar("filename", filename), _to_save(names, [""] * len(names), data, T))


@register
class SaveSlices(_Saves):
    """`SaveV2` under its first name."""

    inputs = "filename: string, tensor_names: string, shapes_and_slices: string, data: T"
    paths = ("filename",)
    attrs = {"T": list_attr("type", minimum=1)}

    def compute(
        self,
        xp: Any,
        filename: Array,
        tensor_names: Array,
        shapes_and_slices: Array,
        *data: Array,
        T: list[DType],
    ) -> None:
        """Nothing.

        Raises:
            OpError: As `SaveV2`.
        """
        names, specs = _texts(tensor_names), _texts(shapes_and_slices)
        write_bundle(_scalar("filename", filename), _to_save(names, specs, data, T))


@register
class RestoreV2(_FileOp):
    """Reads tensors, or parts of them, from a checkpoint."""

    inputs = "prefix: string, tensor_names: string, shape_and_slices: string"
    paths = ("prefix",)
    outputs = "tensors: dtypes"
    attrs = {"dtypes": list_attr("type", minimum=1)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shapes of the slices; unknown ones of whole tensors."""
        node.with_rank(0, 0, "prefix")
        specs = node.value(2)
        count = len(node.attrs["dtypes"])
        if specs is None or specs.size != count:
            return [None] * count
        return [_spec_shape(spec) for spec in _texts(specs)]

    def compute(
        self,
        xp: Any,
        prefix: Array,
        tensor_names: Array,
        shape_and_slices: Array,
        *,
        dtypes: list[DType],
    ) -> tuple[Array, ...]:
        """The tensors.

        Raises:
            NotFoundError: There is no such checkpoint, or a name is not in it.
            InvalidArgumentError: A tensor has another dtype, or its slice is of another shape.
            DataLossError: The files are damaged.
        """
        names, specs = _texts(tensor_names), _texts(shape_and_slices)
        _require_counts(len(dtypes), names, specs)

        def read(reader: CheckpointTensors) -> tuple[Array, ...]:
            for name, dtype in zip(names, dtypes, strict=True):
                require_dtype(reader, name, dtype)
            return tuple([_restored(reader, *each) for each in zip(names, specs, strict=True)])

        return read_checkpoint(_scalar("prefix", prefix), read)


class _RestoresOne(_FileOp):
    infer = unknown

    def read(self, pattern: Array, name: Array, spec: str, dtype: DType) -> Array:
        """The tensor, from the one file that the pattern matches, or any of them."""
        wanted = _scalar("tensor_name", name)

        def read(reader: CheckpointTensors) -> Array:
            require_dtype(reader, wanted, dtype)
            return _restored(reader, wanted, spec)

        return read_checkpoint(_scalar("file_pattern", pattern), read)


@register
class Restore(_RestoresOne):
    """Reads one whole tensor; `preferred_shard` only ever was a hint."""

    inputs = "file_pattern: string, tensor_name: string"
    paths = ("file_pattern",)
    outputs = "tensor: dt"
    attrs = {"dt": type_attr(), "preferred_shard": int_attr(-1)}

    def compute(self, xp: Any, file_pattern: Array, tensor_name: Array, *, dt: DType) -> Array:
        """The tensor.

        Raises:
            OpError: As `RestoreV2`.
        """
        return self.read(file_pattern, tensor_name, "", dt)


@register
class RestoreSlice(_RestoresOne):
    """Reads one tensor or a part of it."""

    inputs = "file_pattern: string, tensor_name: string, shape_and_slice: string"
    paths = ("file_pattern",)
    outputs = "tensor: dt"
    attrs = {"dt": type_attr(), "preferred_shard": int_attr(-1)}

    def compute(
        self, xp: Any, file_pattern: Array, tensor_name: Array, shape_and_slice: Array, *, dt: DType
    ) -> Array:
        """The tensor.

        Raises:
            OpError: As `RestoreV2`.
        """
        spec = _scalar("shape_and_slice", shape_and_slice)
        return self.read(file_pattern, tensor_name, spec, dt)


@register
class MergeV2Checkpoints(_FileOp):
    """Makes one checkpoint of the shards that several tasks wrote to a shared file system."""

    inputs = "checkpoint_prefixes: string, destination_prefix: string"
    paths = ("checkpoint_prefixes", "destination_prefix")
    attrs = {"delete_old_dirs": bool_attr(True), "allow_missing_files": bool_attr(False)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """No output."""
        node.with_rank(0, 1, "checkpoint_prefixes")
        node.with_rank(1, 0, "destination_prefix")
        return []

    def compute(
        self,
        xp: Any,
        checkpoint_prefixes: Array,
        destination_prefix: Array,
        *,
        delete_old_dirs: bool,
        allow_missing_files: bool,
    ) -> None:
        """Nothing.

        Raises:
            OpError: As `merge_bundles`.
        """
        prefixes = _texts(checkpoint_prefixes)
        if allow_missing_files:
            prefixes = [prefix for prefix in prefixes if system.exists(f"{prefix}.index")]
        merge_bundles(prefixes, _scalar("destination_prefix", destination_prefix), delete_old_dirs)


@register
class ShardedFilename(Op):
    """The name of one shard: `base-00001-of-00003`."""

    inputs = "basename: string, shard: int32, num_shards: int32"
    outputs = "filename: string"
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A scalar, as all inputs are."""
        for index, name in enumerate(("basename", "shard", "num_shards")):
            node.with_rank(index, 0, name)
        return [shapes.SCALAR]

    def compute(self, xp: Any, basename: Array, shard: Array, num_shards: Array) -> Array:
        """A text."""
        name = f"{_scalar('basename', basename)}-{int(shard):05d}-of-{int(num_shards):05d}"
        return np.array(os.fsencode(name), np.object_)


@register
class ShardedFilespec(Op):
    """The pattern of all shards: `base-?????-of-00003`."""

    inputs = "basename: string, num_shards: int32"
    outputs = "filename: string"
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A scalar, as all inputs are."""
        for index, name in enumerate(("basename", "num_shards")):
            node.with_rank(index, 0, name)
        return [shapes.SCALAR]

    def compute(self, xp: Any, basename: Array, num_shards: Array) -> Array:
        """A text."""
        name = f"{_scalar('basename', basename)}-?????-of-{int(num_shards):05d}"
        return np.array(os.fsencode(name), np.object_)


def _texts(array: Array) -> list[str]:
    return [_text(each) for each in np.asarray(array, np.object_).reshape(-1)]


def _scalar(name: str, array: Array) -> str:
    values = np.asarray(array, np.object_)
    if values.size != 1:
        raise InvalidArgumentError(
            message=f"{name} must be a scalar text, got shape {shapes.text(values.shape)}"
        )
    return _text(values.reshape(-1)[0])


def _text(value: Any) -> str:
    return os.fsdecode(value)


def _spec_shape(spec: str) -> Shape:
    if not spec:
        return None
    full_shape, part = parse_spec(spec)
    return part.shape_in(full_shape)


def _require_counts(count: int, names: Sequence[str], specs: Sequence[str]) -> None:
    if not count == len(names) == len(specs):
        raise InvalidArgumentError(
            message=f"There are {count} tensors, {len(names)} tensor_names and {len(specs)} "
            "shape_and_slices; each tensor needs one of each"
        )


def _to_save(
    names: Sequence[str], specs: Sequence[str], tensors: Sequence[Array], types: Sequence[DType]
) -> Iterator[Saved]:
    _require_counts(len(tensors), names, specs)
    for name, spec, tensor, dtype in zip(names, specs, tensors, types, strict=True):
        values = np.asarray(tensor)
        if not spec:
            yield Saved(name, dtype.base, values)
            continue
        full_shape, part = parse_spec(spec)
        yield Saved(name, dtype.base, values, part, full_shape)


def _restored(reader: CheckpointTensors, name: str, spec: str) -> Array:
    if not spec:
        return reader.read(name)
    full_shape, part = parse_spec(spec)
    if full_shape != reader.shape(name):
        raise InvalidArgumentError(
            message=f"tensor_name = {name}; shape in shape_and_slice spec "
            f"{shapes.bracketed(full_shape)} does not match the shape stored in checkpoint: "
            f"{shapes.bracketed(reader.shape(name))}"
        )
    return reader.read_slice(name, part)
