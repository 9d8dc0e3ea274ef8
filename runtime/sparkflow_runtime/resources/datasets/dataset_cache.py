"""Datasets that cache their elements in memory or in a file."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import AlreadyExistsError, DataLossError, InvalidArgumentError
from sparkflow_runtime.events.records import frame_record, read_records
from sparkflow_runtime.files import system
from sparkflow_runtime.files.whole import is_local, sync_file
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.protos.types_pb2 import DT_VARIANT
from sparkflow_runtime.resources.datasets.dataset import Dataset, Element, ElementIterator
from sparkflow_runtime.resources.datasets.dataset_sources import of_iterator
from sparkflow_runtime.tensor_proto import (
    concrete_shape,
    export_shape,
    export_tensor,
    import_tensor,
)

_BEGIN = b"sparkflow cache"
_END = b"end of "
_ARRAY = "tensorflow::Tensor"
"""TensorFlow's type name of a variant that holds a tensor."""


class Memory:
    """The elements of a dataset after a full pass. `lock` guards `elements`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.elements: list[Element] | None = None


class _Remembering(ElementIterator):
    def __init__(self, source: ElementIterator, memory: Memory) -> None:
        self._source, self._memory = source, memory
        self._elements: list[Element] = []

    def next(self, step: Any) -> Element | None:
        element = self._source.next(step)
        if element is not None:
            self._elements.append(element)
            return element
        with self._memory.lock:
            if self._memory.elements is None:
                self._memory.elements = self._elements
        return None

    def close(self) -> None:
        self._source.close()


def cached_in_memory(source: Dataset) -> Dataset:
    """Returns the elements, computed once: after a full pass iterators get its elements."""
    memory = Memory()

    def iterate() -> ElementIterator:
        with memory.lock:
            elements = memory.elements
        if elements is None:
            return _Remembering(source.iterate(), memory)
        return of_iterator(lambda: iter(elements)).iterate()

    return Dataset(iterate, source.length)


class _Writing(ElementIterator):
    """Writes the elements to a temporary file, which is renamed at the end."""

    def __init__(self, source: ElementIterator, path: str) -> None:
        self._source, self._path = source, path
        self._lock = f"{path}.lockfile"
        self._stream: BinaryIO | None = None
        self._count = 0
        self._ended = False

    def next(self, step: Any) -> Element | None:
        if self._ended:
            return None
        if self._stream is None:
            if system.exists(self._lock):
                raise AlreadyExistsError(
                    message="There appears to be a concurrent caching iterator running - cache "
                    f"lockfile already exists ('{self._lock}'). If you are sure no other running "
                    "TF computations are using this cache prefix, delete the lockfile and "
                    "re-initialize the iterator."
                )
            self._stream = system.open_file(self._lock, "wb")
            self._stream.write(frame_record(_BEGIN))
        element = self._source.next(step)
        if element is None:
            self._ended = True
            self._stream.write(frame_record(_END + self._count.to_bytes(8, "little")))
            self._stream.close()
            self._stream = None
            if is_local(self._lock):
                sync_file(self._lock)
            system.rename(self._lock, self._path, overwrite=True)
            return None
        self._count += 1
        self._stream.write(frame_record(len(element).to_bytes(4, "little")))
        for component in element:
            self._stream.write(frame_record(_exported(component).SerializeToString()))
        return element

    def close(self) -> None:
        stream, self._stream = self._stream, None
        self._ended = True
        if stream is not None:
            stream.close()
            system.remove(self._lock)
        self._source.close()


def _exported(component: Any) -> TensorProto:
    """The message of a component; TensorFlow's of a variant tensor if its elements are arrays."""
    if not (isinstance(component, np.ndarray) and component.dtype.hasobject):
        return export_tensor(component)
    if not (component.size and isinstance(component.item(0), np.ndarray)):
        return export_tensor(component)
    message = TensorProto(dtype=DT_VARIANT, tensor_shape=export_shape(component.shape))
    for array in component.reshape(-1):
        message.variant_val.add(type_name=_ARRAY, tensors=[export_tensor(array)])
    return message


def _imported(message: TensorProto) -> Any:
    """The inverse of `_exported`.

    Raises:
        InvalidArgumentError: It is no such message.
    """
    if message.dtype != DT_VARIANT:
        return import_tensor(message)
    arrays = [import_tensor(each) for value in message.variant_val for each in value.tensors]
    shape = concrete_shape(message.tensor_shape, dtypes.variant)
    if len(arrays) != math.prod(shape):
        raise InvalidArgumentError(
            message=f"A variant tensor of shape {shape} holds {len(arrays)} arrays"
        )
    result = np.empty(len(arrays), object)
    for place, array in enumerate(arrays):
        result[place] = array
    return result.reshape(shape)


def cached_in_file(source: Dataset, prefix: str) -> Dataset:
    """Returns the elements, computed once and cached in a file, also for other programs."""
    path = f"{os.fspath(prefix)}.data-00000-of-00001"

    def iterate() -> ElementIterator:
        if system.exists(path):
            return of_iterator(lambda: _read(path)).iterate()
        return _Writing(source.iterate(), path)

    return Dataset(iterate, source.length)


def _read(path: str) -> Iterator[Element]:
    """Reads all elements that were written; files from before 2026-11-23 lack their number."""
    count, is_old, ended = 0, False, False
    with system.open_file(path) as stream:
        records = read_records(stream)
        for number, header in enumerate(records):
            if number == 0:
                is_old = header != _BEGIN
                if not is_old:
                    continue
            if header == _END + count.to_bytes(8, "little"):
                ended = True
                continue
            count += 1
            parts = []
            for _ in range(int.from_bytes(header, "little")):
                message = TensorProto()
                try:
                    message.ParseFromString(next(records))
                except (DecodeError, StopIteration) as error:
                    raise DataLossError(message=f"The cache {path} is damaged") from error
                parts.append(_imported(message))
            yield tuple(parts)
    if not ended and not is_old:
        raise DataLossError(message=f"The cache {path} is damaged: it ends after {count} elements")
