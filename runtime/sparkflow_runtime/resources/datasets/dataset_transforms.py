"""Datasets that rearrange the elements of others, without calling a function."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, OpError
from sparkflow_runtime.resources.datasets.dataset import (
    INFINITE,
    UNKNOWN,
    Array,
    Dataset,
    Element,
    ElementIterator,
    Passing,
    multiplied,
    shape_of,
)
from sparkflow_runtime.resources.datasets.dataset_sources import joined, of_iterator


def known_length(length: int, change: Callable[[int], int]) -> int:
    """Computes a length from the input's, if that is known."""
    return change(length) if length >= 0 else length


class _Batches(ElementIterator):
    def __init__(self, source: ElementIterator, size: int, drop: bool) -> None:
        self._source, self._size, self._drop = source, size, drop

    def next(self, step: Any) -> Element | None:
        block = self._source.next_block(step, self._size)
        if block is None or (self._drop and len(block[0]) < self._size):
            return None
        return block

    def close(self) -> None:
        self._source.close()


def batched(source: Dataset, size: int, drop: bool) -> Dataset:
    """Returns batches of `size` elements.

    Raises:
        InvalidArgumentError: `size` is not positive.
    """
    require_positive(size, "batch_size")
    length = known_length(source.length, lambda n: n // size if drop else -(-n // size))
    return Dataset(lambda: _Batches(source.iterate(), size, drop), length)


def require_positive(size: int, name: str) -> None:
    """Checks that a number is above 0.

    Raises:
        InvalidArgumentError: It is not.
    """
    if size <= 0:
        raise InvalidArgumentError(message=f"{name} must be greater than zero, got {size}")


class _PaddedBatches(ElementIterator):
    def __init__(
        self, source: ElementIterator, size: int, drop: bool, wanted: Any, values: Sequence[Array]
    ) -> None:
        self._source, self._size, self._drop = source, size, drop
        self._wanted, self._values = wanted, values

    def next(self, step: Any) -> Element | None:
        elements = self._source.collect(step, self._size)
        if not elements or (self._drop and len(elements) < self._size):
            return None
        columns = zip(*elements, strict=True)
        parts = enumerate(zip(columns, self._wanted, self._values, strict=True))
        return tuple([_padded(index, *part) for index, part in parts])

    def close(self) -> None:
        self._source.close()


def _padded(index: int, arrays: Sequence[Array], wanted: Sequence[int], value: Array) -> Array:
    rank = len(wanted)
    for array in arrays:
        if array.ndim != rank:
            raise InvalidArgumentError(
                message="All elements in a batch must have the same rank as the padded shape for "
                f"component{index}: expected rank {rank} but got element with rank {array.ndim}"
            )
    longest = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    target = []
    for axis, (size, need) in enumerate(zip(wanted, longest, strict=True)):
        if 0 <= size < need:
            raise DataLossError(
                message=f"Attempted to pad to a smaller size than the input element: component "
                f"{index} is to be {size} long in dimension {axis}, an element is {need}"
            )
        target.append(need if size < 0 else size)
    result: Array = np.full((len(arrays), *target), value[()], arrays[0].dtype)
    for place, array in enumerate(arrays):
        where = tuple([slice(0, size) for size in array.shape])
        result[(place, *where)] = array if rank else array[()]
    return result


def padded_batched(
    source: Dataset, size: int, drop: bool, wanted: Sequence[Array], values: Sequence[Array]
) -> Dataset:
    """Returns batches of `size` elements, padded to the largest, or to `wanted`.

    Args:
        source: The elements.
        size: The batch size.
        drop: Whether a smaller last batch is dropped.
        wanted: Per component its shape in a batch; -1 for the size of the largest element.
        values: Per component the scalar to pad with.

    Raises:
        InvalidArgumentError: `size` is not positive, or a value is not a scalar.
    """
    require_positive(size, "batch_size")
    for value in values:
        if np.ndim(value):
            raise InvalidArgumentError(message="All padding values must be scalars")
    sizes = [[int(each) for each in np.asarray(shape).tolist()] for shape in wanted]
    fill = [np.asarray(value) for value in values]
    length = known_length(source.length, lambda n: n // size if drop else -(-n // size))
    return Dataset(lambda: _PaddedBatches(source.iterate(), size, drop, sizes, fill), length)


class _Repeated(ElementIterator):
    def __init__(self, source: Dataset, count: int) -> None:
        self._dataset = source
        self._source = source.iterate()
        self.columns = self._source.columns
        self._left = count - 1
        self._any = False

    def next(self, step: Any) -> Element | None:
        while True:
            element = self._source.next(step)
            if element is not None:
                self._any = True
                return element
            if not self._next_epoch():
                return None

    def next_row(self, step: Any) -> int | None:
        while True:
            row = self._source.next_row(step)
            if row is not None:
                self._any = True
                return row
            if not self._next_epoch():
                return None

    def next_block(self, step: Any, count: int) -> Element | None:
        parts: list[Element] = []
        while True:
            block = self._source.next_block(step, count)
            if block is not None:
                self._any = True
                parts.append(block)
                count -= len(block[0])
            if not count or not self._next_epoch():
                return joined(parts)

    def _next_epoch(self) -> bool:
        if self._left == 0 or (self._left < 0 and not self._any):
            return False  # empty, repeated forever, is empty
        self._left -= 1
        self._any = False
        self._source.close()
        self._source = self._dataset.iterate()
        return True

    def close(self) -> None:
        self._source.close()


def repeated(source: Dataset, count: int) -> Dataset:
    """Returns all elements `count` times; forever if it is negative."""
    if count == 0:
        return of_iterator(lambda: iter(()), 0)
    return Dataset(lambda: _Repeated(source, count), multiplied(source.length, count))


class _Taken(Passing):
    def __init__(self, source: ElementIterator, count: int) -> None:
        super().__init__(source)
        self._left = count

    def _advance(self, following: Callable[[Any], Any], step: Any) -> Any:
        if not self._left:
            return None
        item = following(step)
        if item is not None:
            self._left -= 1
        return item

    def next_block(self, step: Any, count: int) -> Element | None:
        block = self._source.next_block(step, min(count, self._left)) if self._left else None
        if block is not None:
            self._left -= len(block[0])
        return block


def taken(source: Dataset, count: int) -> Dataset:
    """Returns the first `count` elements; all if it is negative."""
    if count < 0:
        return source
    length = count if source.length == INFINITE else source.length
    return Dataset(
        lambda: _Taken(source.iterate(), count), known_length(length, lambda n: min(n, count))
    )


class _Skipped(Passing):
    def __init__(self, source: ElementIterator, count: int) -> None:
        super().__init__(source)
        self._left = count

    def _advance(self, following: Callable[[Any], Any], step: Any) -> Any:
        while self._left:
            if following(step) is None:
                return None
            self._left -= 1
        return following(step)


def skipped(source: Dataset, count: int) -> Dataset:
    """Returns all but the first `count` elements; none if it is negative."""
    if count < 0:
        return of_iterator(lambda: iter(()), 0)
    length = known_length(source.length, lambda n: max(n - count, 0))
    return Dataset(lambda: _Skipped(source.iterate(), count), length)


class _Shard(Passing):
    def __init__(self, source: ElementIterator, number: int, index: int) -> None:
        super().__init__(source)
        self._before, self._between = index, number - 1

    def _advance(self, following: Callable[[Any], Any], step: Any) -> Any:
        for _ in range(self._before):
            if following(step) is None:
                return None
        self._before = self._between
        return following(step)


def shard(source: Dataset, number: int, index: int) -> Dataset:
    """Returns every `number`-th element, from `index`.

    Raises:
        InvalidArgumentError: `number` is not positive, or `index` not in [0, number).
    """
    if number < 1:
        raise InvalidArgumentError(
            message=f"Number of shards must be greater than zero (currently num_shards = {number})."
        )
    if not 0 <= index < number:
        raise InvalidArgumentError(
            message=f"Index must be between 0 and {number - 1} (currently index = {index})."
        )
    length = known_length(source.length, lambda n: len(range(index, n, number)))
    return Dataset(lambda: _Shard(source.iterate(), number, index), length)


class _Concatenated(ElementIterator):
    def __init__(self, first: ElementIterator, second: Dataset) -> None:
        self._source, self._second = first, [second]

    def next(self, step: Any) -> Element | None:
        element = self._source.next(step)
        while element is None and self._second:
            self._source.close()
            self._source = self._second.pop().iterate()
            element = self._source.next(step)
        return element

    def close(self) -> None:
        self._source.close()


def concatenated(first: Dataset, second: Dataset) -> Dataset:
    """Returns the elements of the first dataset, then those of the second."""
    lengths = (first.length, second.length)
    length = sum(lengths)
    if min(lengths) < 0:
        length = INFINITE if INFINITE in lengths else UNKNOWN
    return Dataset(lambda: _Concatenated(first.iterate(), second), length)


class _Zipped(ElementIterator):
    def __init__(self, sources: Sequence[ElementIterator]) -> None:
        self._sources = sources
        self._ended = False

    def next(self, step: Any) -> Element | None:
        if self._ended:
            return None
        parts: list[Any] = []
        for source in self._sources:
            element = source.next(step)
            if element is None:
                self._ended = True
                return None
            parts.extend(element)
        return tuple(parts)

    def next_block(self, step: Any, count: int) -> Element | None:
        if self._ended:
            return None
        blocks = []
        for source in self._sources:
            block = source.next_block(step, count)
            if block is None:
                self._ended = True
                return None
            blocks.append(block)
        least = min(len(block[0]) for block in blocks)
        self._ended = least < count
        return tuple([array[:least] for block in blocks for array in block])

    def close(self) -> None:
        for source in self._sources:
            source.close()


def zipped(sources: Sequence[Dataset]) -> Dataset:
    """Zips datasets; ends with the shortest one."""
    lengths = [each.length for each in sources if each.length != INFINITE]
    length = INFINITE if not lengths else UNKNOWN if UNKNOWN in lengths else min(lengths)
    return Dataset(lambda: _Zipped([each.iterate() for each in sources]), length)


class _Unbatched(ElementIterator):
    def __init__(self, source: ElementIterator) -> None:
        self._source = source
        self._block: Element = ()
        self._place = self._count = 0

    def next(self, step: Any) -> Element | None:
        while self._place == self._count:
            block = self._source.next(step)
            if block is None:
                return None
            sizes = {shape_of(array)[:1] for array in block}
            if () in sizes:
                raise InvalidArgumentError(
                    message="Cannot unbatch an input with scalar components."
                )
            if len(sizes) != 1:
                raise InvalidArgumentError(
                    message="Input element must have the same batch size in each component."
                )
            self._block, self._place, self._count = block, 0, sizes.pop()[0]
        place = self._place
        self._place = place + 1
        return tuple([array[place, ...] for array in self._block])

    def close(self) -> None:
        self._source.close()


def unbatched(source: Dataset) -> Dataset:
    """Returns the rows of the elements."""
    return Dataset(lambda: _Unbatched(source.iterate()))


class _Windows(ElementIterator):
    def __init__(
        self, source: ElementIterator, size: int, shift: int, stride: int, drop: bool
    ) -> None:
        self._source, self._drop = source, drop
        self._size, self._shift, self._stride = size, shift, stride
        self._kept: deque[Element] = deque()
        self._to_skip = 0
        self._ended = False

    def next(self, step: Any) -> Element | None:
        span = (self._size - 1) * self._stride + 1
        while self._to_skip and not self._ended:
            self._ended = self._source.next(step) is None
            self._to_skip -= 1
        while len(self._kept) < span and not self._ended:
            element = self._source.next(step)
            if element is None:
                self._ended = True
            else:
                self._kept.append(element)
        if not self._kept or (self._drop and len(self._kept) < span):
            return None
        window = list(self._kept)[: span : self._stride]
        for _ in range(min(self._shift, len(self._kept))):
            self._kept.popleft()
        self._to_skip = max(self._shift - span, 0)
        return tuple([_column(window, index) for index in range(len(window[0]))])

    def close(self) -> None:
        self._source.close()


def _column(elements: Sequence[Element], index: int) -> Dataset:
    return of_iterator(lambda: iter([(element[index],) for element in elements]), len(elements))


def windowed(source: Dataset, size: int, shift: int, stride: int, drop: bool) -> Dataset:
    """Returns windows of `size` elements: a dataset per component, every `shift` elements.

    Raises:
        InvalidArgumentError: A number is not positive.
    """
    for name, value in (("size", size), ("shift", shift), ("stride", stride)):
        if value <= 0:
            raise InvalidArgumentError(
                message=f"Window {name} must be greater than zero, got {value}"
            )
    return Dataset(lambda: _Windows(source.iterate(), size, shift, stride, drop))


class _WithoutErrors(ElementIterator):
    def __init__(self, source: ElementIterator) -> None:
        self._source = source

    def next(self, step: Any) -> Element | None:
        while True:
            try:
                return self._source.next(step)
            except OpError:
                step.check_cancelled()  # the step's own error, not the element's

    def close(self) -> None:
        self._source.close()


def without_errors(source: Dataset) -> Dataset:
    """Returns the elements that do not fail."""
    return Dataset(lambda: _WithoutErrors(source.iterate()))


class _Chosen(ElementIterator):
    def __init__(
        self, selector: ElementIterator, sources: Sequence[ElementIterator], stop: bool
    ) -> None:
        self._selector, self._stop = selector, stop
        self._sources: list[ElementIterator | None] = list(sources)

    def next(self, step: Any) -> Element | None:
        while any(source is not None for source in self._sources):
            chosen = self._selector.next(step)
            if chosen is None:
                return None
            index = int(chosen[0])
            if not 0 <= index < len(self._sources):
                raise InvalidArgumentError(
                    message=f"Selector index out of range: {index} >= {len(self._sources)}"
                )
            source = self._sources[index]
            element = source.next(step) if source is not None else None
            if element is not None:
                return element
            if self._stop:
                return None
            if source is not None:
                source.close()
                self._sources[index] = None
        return None

    def close(self) -> None:
        self._selector.close()
        for source in self._sources:
            if source is not None:
                source.close()


def chosen(selector: Dataset, sources: Sequence[Dataset], stop_on_empty: bool) -> Dataset:
    """Returns elements of several datasets; `selector` yields the dataset index of the next one."""
    return Dataset(
        lambda: _Chosen(selector.iterate(), [each.iterate() for each in sources], stop_on_empty)
    )


class _SparseBatches(ElementIterator):
    def __init__(self, source: ElementIterator, size: int, row_shape: Sequence[int]) -> None:
        self._source, self._size, self._row_shape = source, size, row_shape

    def next(self, step: Any) -> Element | None:
        elements = self._source.collect(step, self._size)
        if not elements:
            return None
        rank = len(self._row_shape)
        places, values = [], []
        largest = [0] * rank
        for row, (array,) in enumerate(elements):
            if array.ndim != rank:
                raise InvalidArgumentError(
                    message="All elements must have the same rank as row_shape, "
                    f"{rank}, got {array.ndim}"
                )
            for axis, (need, size) in enumerate(zip(array.shape, self._row_shape, strict=True)):
                if 0 <= size < need:
                    raise InvalidArgumentError(
                        message=f"row_shape is {size} in dimension {axis}, an element of shape "
                        f"{shapes.bracketed(array.shape)} does not fit"
                    )
                largest[axis] = max(largest[axis], need)
            inner = np.indices(array.shape).reshape(rank, -1).T
            places.append(np.insert(inner, 0, row, axis=1))
            values.append(array.ravel())
        sizes = [a if b < 0 else b for a, b in zip(largest, self._row_shape, strict=True)]
        return (
            np.concatenate(places).astype(np.int64),
            np.concatenate(values),
            np.array([len(elements), *sizes], np.int64),
        )

    def close(self) -> None:
        self._source.close()


def sparse_batched(source: Dataset, size: int, row_shape: Sequence[int]) -> Dataset:
    """Returns batches of elements of different sizes as (indices, values, shape) of sparse tensors.

    Raises:
        InvalidArgumentError: `size` is not positive.
    """
    require_positive(size, "batch_size")
    return Dataset(lambda: _SparseBatches(source.iterate(), size, row_shape))
