"""Convolutions over two dimensions and their gradients in machine code, channels last.

Each function here looks at the sizes of one convolution and binds a body of `contraction_ir`; what
it gives is called with the arrays. A convolution adds up over the elements of each window. So does
the gradient by images, over dy with zeros around it and the filters mirrored, one such convolution
per place between strides. The gradient by filters adds up over windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from sparkflow_runtime.codegen import contraction_ir, host, native, scratch, threads as pools
from sparkflow_runtime.codegen.contraction_ir import Field, Form
from sparkflow_runtime.codegen.entry import NOT_COUNTED

Array = np.ndarray[Any, Any]
Kernel = Callable[[Array, Array, Array], bool]
"""Of two inputs and the array to fill; False, and nothing done, where an array does not fit."""

ELEMENTS: Final = {"f": "float", "d": "double"}
"""LLVM's names of the dtypes that there are bodies for, by numpy's characters."""
CACHE_BYTES: Final = 256 << 10
"""What should stay in the cache of one core, together with as much again."""
GROUP_ROWS: Final = 192
"""Small images are worked on together until there are so many windows: few tiles are incomplete."""
CHUNK_PLACES: Final = 192
"""Windows over which the gradient by filters adds up before it turns to the next filter places."""
WRITTEN_OUT: Final = 32
"""Loops of so many turns or fewer are written out."""
PARALLEL_PRODUCTS: Final = 1_000_000
"""Multiplications from which several threads pay; a hand-over takes microseconds."""


class Window(Protocol):
    """Where windows lie over one dimension."""

    @property
    def size(self) -> int:
        """Elements per window."""

    @property
    def stride(self) -> int:
        """Steps between windows."""

    @property
    def dilation(self) -> int:
        """Steps between elements of a window."""

    @property
    def before(self) -> int:
        """Zeros before the first element."""

    @property
    def count(self) -> int:
        """Number of windows."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """How places along one dimension are walked over.

    Attributes:
        dim: Elements of the images.
        before: Zeros before them; less than 0 never.
        padded: Elements and zeros before and after.
        origin: The padded place of the first element of the first window.
        taps: Elements per window.
        tap: Steps between them.
        count: Windows.
        step: Steps between them.
    """

    dim: int
    before: int
    padded: int
    origin: int
    taps: int
    tap: int
    count: int
    step: int

    @classmethod
    def of(cls, window: Window, dim: int) -> _Axis:
        """The axis of a convolution's windows over `dim` elements."""
        needed = (window.count - 1) * window.stride + (window.size - 1) * window.dilation + 1
        padded = max(window.before + dim, needed) if window.count else dim
        return cls(
            dim,
            window.before,
            padded,
            0,
            window.size,
            window.dilation,
            window.count,
            window.stride,
        )

    @property
    def is_padded(self) -> bool:
        """Whether there are zeros."""
        return self.padded != self.dim


@dataclass(frozen=True, slots=True)
class _Images:
    """Images as they are read: two axes and the channels.

    Attributes:
        pitch: Elements from one pixel to the next where they are copied; the channels or more.
    """

    rows: _Axis
    columns: _Axis
    channels: int
    pitch: int

    @property
    def line(self) -> int:
        """Elements from a line to the next, zeros included."""
        return self.columns.padded * self.pitch

    @property
    def is_copied(self) -> bool:
        """Whether they are read from a copy."""
        return self.rows.is_padded or self.columns.is_padded or self.pitch != self.channels

    @property
    def windows(self) -> int:
        """Windows per image."""
        return self.rows.count * self.columns.count

    @property
    def is_run(self) -> bool:
        """Whether a line of a window is one run of memory."""
        is_dense = self.columns.tap == 1 and self.pitch == self.channels
        return is_dense or self.columns.taps == 1

    def fields(self) -> dict[Field, int]:
        """What says how they lie in memory, and which group of them is worked on at once."""
        rows, columns, channels, pitch = self.rows, self.columns, self.channels, self.pitch
        image = rows.padded * self.line
        runs = 1 if pitch == channels else columns.dim
        return {
            Field.LEFT_IMAGE: rows.dim * columns.dim * channels,
            Field.LEFT_ORIGIN: rows.origin * self.line + columns.origin * pitch,
            Field.IS_PADDED: int(self.is_copied),
            Field.PADDED_IMAGE: image,
            Field.PADDED_ORIGIN: rows.before * self.line + columns.before * pitch,
            Field.PADDED_LINE: self.line,
            Field.LINES: rows.dim,
            Field.LINE: columns.dim * channels // runs,
            Field.RUNS: runs,
            Field.PADDED_RUN: pitch,
        }


def forward(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    depthwise: bool = False,
) -> Kernel | None:
    """The kernel of a convolution, called with images, filters and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs]; [rows, columns, channels, 1] where depthwise.
        windows: Over height and width.
        depthwise: Every channel has a filter of its own.

    Returns:
        None where there is no kernel.
    """
    if not _has_kernel(dtype, filters, windows, depthwise):
        return None
    batch, height, width, channels = images
    axes = _Images(_Axis.of(windows[0], height), _Axis.of(windows[1], width), channels, channels)
    columns = channels if depthwise else filters[3]
    line = axes.columns.count * columns
    out = _Places((axes.windows * columns, line, columns), 0)
    task = _by_image(dtype, batch, axes, columns, out, depthwise)
    pack = None if depthwise else _Packing(filters, task.form.panel)
    return _bound(dtype, [(task, pack)], images, filters, (batch, axes.windows * columns))


def input_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    depthwise: bool = False,
) -> Kernel | None:
    """The kernel of the gradient by images, called with dy, filters and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels], the result's shape.
        filters: As in `forward`.
        windows: The convolution's.
        depthwise: The same.

    Returns:
        None where there is no kernel.
    """
    mixed = any(window.stride > 1 and window.dilation > 1 for window in windows)
    if mixed or not _has_kernel(dtype, filters, windows, depthwise):
        return None
    batch, height, width, channels = images
    outputs = channels if depthwise else filters[3]
    tasks: list[tuple[_Task, _Packing | None]] = []
    column_phases = list(_phases(windows[1], width))
    for rows in _phases(windows[0], height):
        for columns in column_phases:
            axes = _Images(rows.axis, columns.axis, outputs, outputs)
            out = _Places(
                (
                    height * width * channels,
                    windows[0].stride * width * channels,
                    windows[1].stride * channels,
                ),
                rows.first * width * channels + columns.first * channels,
            )
            task = _by_image(dtype, batch, axes, channels, out, depthwise)
            picked = (rows.taken(), columns.taken())
            panel = 0 if depthwise else task.form.panel
            tasks.append((task, _Packing(filters, panel, picked, transposed=not depthwise)))
    dy = (batch, windows[0].count * windows[1].count * outputs)
    return _bound(dtype, tasks, dy, filters, images)


def filter_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    depthwise: bool = False,
) -> Kernel | None:
    """The kernel of the gradient by filters, called with images, dy and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels].
        filters: As in `forward`, the result's shape.
        windows: Over height and width.
        depthwise: As in `forward`.

    Returns:
        None where there is no kernel.
    """
    if not _has_kernel(dtype, filters, windows, depthwise):
        return None
    batch, height, width, channels = images
    # Pixels a power of two apart would all want the same few lines of the cache.
    is_even = not depthwise and channels * dtype.itemsize % (4 * scratch.ALIGNMENT) == 0
    pitch = channels + (scratch.ALIGNMENT // dtype.itemsize if is_even else 0)
    axes = _Images(_Axis.of(windows[0], height), _Axis.of(windows[1], width), channels, pitch)
    columns = channels if depthwise else filters[3]
    task = _by_filter(dtype, batch, axes, columns, depthwise)
    dy = (batch, axes.windows * columns)
    total, threads = math.prod(filters), task.threads
    run, size = task.bind((math.prod(images), math.prod(dy), total * threads))
    size_bytes = size * dtype.itemsize
    total_bytes = size_bytes + (total * threads * dtype.itemsize if threads > 1 else 0)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        memory = scratch.take(total_bytes)[:total_bytes]
        if threads == 1:
            return run(left, right, out, memory)
        sums = memory[size_bytes:].view(dtype)
        if out.size != total or not run(left, right, sums, memory):
            return False
        np.add.reduce(sums.reshape(threads, *out.shape), axis=0, out=out)
        return True

    return kernel


def panel_bytes(depth: int) -> int:
    """The size of the filters that are read again and again, given the elements per output."""
    return depth * _tile()[1] * host.host().vector_bytes


def _has_kernel(
    dtype: np.dtype[Any], filters: Sequence[int], windows: Sequence[Window], depthwise: bool
) -> bool:
    return (
        native.available()
        and dtype.char in ELEMENTS
        and dtype.isnative
        and len(windows) == 2
        and min(filters) > 0
        and not (depthwise and filters[3] != 1)
    )


@dataclass(frozen=True, slots=True)
class _Phase:
    """The elements of a gradient that lie at the same place between strides, along one dimension.

    Attributes:
        axis: Over dy.
        first: The first of the elements.
        place: The first filter element that reaches them.
        stride: Steps between the elements, and between the filter's.
    """

    axis: _Axis
    first: int
    place: int
    stride: int

    def taken(self) -> slice:
        """The filter's elements that reach them, in the order of dy's."""
        taps = self.axis.taps
        last = self.place + (taps - 1) * self.stride
        after = self.place - self.stride
        return slice(last, after if after >= 0 else None, -self.stride) if taps else slice(0, 0)


def _phases(window: Window, dim: int) -> Iterator[_Phase]:
    """The phases of the gradient of `dim` elements, which all see the same padded dy.

    With u = element + before, dimension by dimension: gradient[u] = Σ over y of
    dy[(u - y·dilation) / stride] · filter[y], wherever that is a whole number.
    """
    found = []
    for place in range(window.stride):
        taps = len(range(place, window.size, window.stride))
        low = -((place - window.before) // window.stride)  # the first dy, without its reach
        count = max((window.before + dim - 1 - place) // window.stride - low + 1, 0)
        found.append((place, taps, low - (taps - 1) * window.dilation, low, count))
    before = max(0, *(-start for _, _, start, _, _ in found))
    last = max(low + count for *_, low, count in found)
    padded = before + max(window.count, last)
    for place, taps, start, low, count in found:
        origin = start + before if taps else 0
        axis = _Axis(window.count, before, padded, origin, taps, window.dilation, count, 1)
        first = low * window.stride + place - window.before
        yield _Phase(axis, first, place, window.stride)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where results go: steps from image to image, line to line and window to window."""

    steps: tuple[int, int, int]
    origin: int


@dataclass(frozen=True, slots=True)
class _Packing:
    """Filters as the body reads them: panel by panel of outputs, each a run of memory.

    Attributes:
        filters: Their shape.
        panel: Outputs per panel; 0 where depthwise, whose filters have no panels.
        picked: Rows and columns.
        transposed: Channels and outputs change places.
    """

    filters: Sequence[int]
    panel: int
    picked: tuple[slice, slice] = (slice(None), slice(None))
    transposed: bool = False

    @property
    def size(self) -> int:
        """Elements of the packed filters."""
        *_, channels, outputs = self.filters
        if self.transposed:
            channels, outputs = outputs, channels
        width = -(-outputs // self.panel) * self.panel if self.panel else outputs
        pairs = zip(self.picked, self.filters, strict=False)
        return math.prod(len(range(*each.indices(size))) for each, size in pairs) * channels * width

    def __call__(self, filters: Array, target: Array) -> None:
        """Writes them to `target`."""
        given = filters[self.picked]
        if self.transposed:
            given = given.swapaxes(2, 3)
        if not self.panel:
            target.reshape(given.shape)[...] = given
            return
        rows, columns, depth, outputs = given.shape
        panels, rest = divmod(outputs, self.panel)
        packed = target.reshape(-(-outputs // self.panel), rows, columns, depth, self.panel)
        whole = packed[:panels].transpose(1, 2, 3, 0, 4)
        cut = panels * self.panel
        whole[...] = given[..., :cut].reshape(whole.shape)
        if rest:
            packed[panels, ..., :rest] = given[..., cut:]
            packed[panels, ..., rest:] = 0


@dataclass(frozen=True, slots=True)
class _Task:
    """One run of a body.

    Attributes:
        dtype: Of the arrays.
        form: Of the body.
        fields: The numbers for it; what is missing is 0.
        batch: Images.
        windows: Per image.
        products: Multiplications, of the whole batch.
    """

    dtype: np.dtype[Any]
    form: Form
    fields: Mapping[Field, int]
    batch: int
    windows: int
    products: int

    @property
    def threads(self) -> int:
        """In how many parts it is done."""
        is_large = self.products >= PARALLEL_PRODUCTS
        return max(min(pools.count(), self.batch), 1) if is_large else 1

    def bind(self, counts: tuple[int, int, int]) -> tuple[Callable[..., bool], int]:
        """The body for arrays of so many elements: left, right and out.

        Returns:
            The callable, and the elements of scratch memory that it needs.
        """
        threads = self.threads
        image = self.fields[Field.PADDED_IMAGE]
        group = min(
            -(-GROUP_ROWS // max(self.windows, 1)) if self.windows < GROUP_ROWS // 2 else 1,
            max(CACHE_BYTES // max(image * self.dtype.itemsize, 1), 1),
            max(-(-self.batch // threads), 1),
        )
        # Rounded so that what comes behind is aligned, too.
        aligned = scratch.ALIGNMENT // self.dtype.itemsize
        part = -(-group * image // aligned) * aligned if self.fields[Field.IS_PADDED] else 0
        whole = part
        if self.form.packs:
            places = group * self.fields[Field.CHUNK] * self.fields[Field.DEPTH_2]
            whole = part + places * self.form.panel
        fields = {
            **self.fields,
            Field.GROUP: group,
            Field.PADDED_PART: part,
            Field.PART: whole,
        }
        form = replace(self.form, fixed=_fixed(self.form, fields))
        run = native.body(contraction_ir.text(form), is_tidy=True).bind(
            [fields.get(field, 0) for field in Field],
            [*counts, NOT_COUNTED],
            self.batch,
            threads,
            self.products >= PARALLEL_PRODUCTS,
        )
        return run, threads * whole


def _fixed(form: Form, fields: Mapping[Field, int]) -> tuple[tuple[Field, int], ...]:
    """Which numbers to build into the code, so that short loops are written out."""
    if not 0 < fields[Field.DEPTH_2] <= WRITTEN_OUT:
        return ()
    chosen = [Field.DEPTH_2]
    if not (form.by_image and form.broadcast):
        chosen.append(Field.LEFT_DEPTH_2)
    if not form.broadcast:
        chosen.append(Field.RIGHT_DEPTH_2)
    if form.by_image and 0 < fields[Field.DEPTH_1] * fields[Field.DEPTH_2] <= WRITTEN_OUT:
        chosen.append(Field.DEPTH_1)
    return tuple((field, fields[field]) for field in chosen)


def _tile() -> tuple[int, int]:
    """Rows and vectors of a tile: its sums, a row of factors and one more fill the registers.

    Fewer rows than registers would allow where there are 32: every row needs an address, too.
    """
    here = host.host()
    if here.vector_bytes == 64:
        return 8, 2
    return (6, 4) if here.triple.startswith(("aarch64", "arm64")) else (6, 2)


def _form(dtype: np.dtype[Any], depthwise: bool, by_image: bool, rows: int, columns: int) -> Form:
    """The tile that fits into the registers of this processor.

    Args:
        dtype: Of the arrays.
        depthwise: Whether columns are channels of both sides.
        by_image: See `Form`.
        rows: How many rows there are in all.
        columns: The same.
    """
    tile, vectors = _tile()
    if not by_image and rows < 8 * tile:
        # A few rows more or less per tile, so that the last one is not half empty.
        tile = min(range(tile, tile // 2, -1), key=lambda each: -(-rows // each) * each)
    lanes = host.host().vector_bytes // dtype.itemsize
    panels, rest = divmod(columns, vectors * lanes)
    element = ELEMENTS[dtype.char]
    broadcast = not depthwise
    return Form(element, lanes, tile, vectors, broadcast, by_image, panels > 0, -(-rest // lanes))


def _by_image(
    dtype: np.dtype[Any],
    batch: int,
    images: _Images,
    columns: int,
    out: _Places,
    depthwise: bool,
) -> _Task:
    """The task whose rows are windows."""
    form = _form(dtype, depthwise, by_image=True, rows=images.windows, columns=columns)
    rows, across, channels = images.rows, images.columns, images.channels
    if depthwise:
        depth = (1, rows.taps, across.taps)
        left = (0, rows.tap * images.line, across.tap * channels)
        right = (0, across.taps * channels, channels)
        panel = form.panel
    else:
        if images.is_run:
            depth = (1, rows.taps, across.taps * channels)
            left = (0, rows.tap * images.line, 1)
        else:
            depth = (rows.taps, across.taps, channels)
            left = (rows.tap * images.line, across.tap * channels, 1)
        right = (depth[1] * depth[2] * form.panel, depth[2] * form.panel, form.panel)
        panel = math.prod(depth) * form.panel
    image = rows.padded * images.line
    steps = (image, rows.step * images.line, across.step * channels)
    walked = (1, rows.count, across.count)
    window_bytes = max(across.step * rows.step * channels, 1) * dtype.itemsize
    block = max(CACHE_BYTES // window_bytes // form.rows, 1) * form.rows
    fields = {
        **images.fields(),
        **_rows(walked, steps, out.steps),
        **_depth(depth, left, right),
        Field.OUT_IMAGE: out.steps[0],
        Field.OUT_ORIGIN: out.origin,
        Field.BLOCK: block,
        Field.COLUMNS: columns,
        Field.RIGHT_PANEL: panel,
    }
    products = batch * images.windows * math.prod(depth) * (1 if depthwise else columns)
    return _Task(dtype, form, fields, batch, images.windows, products)


def _by_filter(
    dtype: np.dtype[Any], batch: int, images: _Images, columns: int, depthwise: bool
) -> _Task:
    """The task whose rows are the places of filters."""
    rows, across, channels = images.rows, images.columns, images.channels
    if depthwise:
        walked = (1, rows.taps, across.taps)
        left = (0, rows.tap * images.line, across.tap * images.pitch)
        out = (0, across.taps * channels, channels)
    elif images.is_run:
        walked = (1, rows.taps, across.taps * channels)
        left = (0, rows.tap * images.line, 1)
        out = (0, walked[2] * columns, columns)
    else:
        walked = (rows.taps, across.taps, channels)
        left = (rows.tap * images.line, across.tap * images.pitch, 1)
        out = (across.taps * channels * columns, channels * columns, columns)
    form = _form(dtype, depthwise, by_image=False, rows=math.prod(walked), columns=columns)
    image = rows.padded * images.line
    depth_left = (image, rows.step * images.line, across.step * images.pitch)
    depth_right = (images.windows * columns, across.count * columns, columns)
    fields = {
        **images.fields(),
        **_rows(walked, left, out),
        **_depth((0, rows.count, across.count), depth_left, depth_right),
        Field.RIGHT_IMAGE: images.windows * columns,
        Field.OUT_PART: math.prod(walked) * columns,
        Field.BLOCK: math.prod(walked),
        Field.COLUMNS: columns,
        Field.RIGHT_PANEL: form.panel,
        Field.CHUNK: max(CHUNK_PLACES // max(across.count, 1), 1),
    }
    products = batch * images.windows * math.prod(walked) * (1 if depthwise else columns)
    return _Task(dtype, form, fields, batch, images.windows, products)


_Three = tuple[int, int, int]


def _rows(counts: _Three, left: _Three, out: _Three) -> dict[Field, int]:
    """The loops over rows, with their steps on the left side and in the result."""

    def wraps(steps: _Three) -> tuple[int, int]:
        inner = steps[1] - (counts[2] - 1) * steps[2]
        return inner, steps[0] - (counts[1] - 1) * steps[1] - (counts[2] - 1) * steps[2]

    return {
        Field.ROWS_0: counts[0],
        Field.ROWS_1: counts[1],
        Field.ROWS_2: counts[2],
        Field.LEFT_STEP: left[2],
        Field.LEFT_WRAP_1: wraps(left)[0],
        Field.LEFT_WRAP_0: wraps(left)[1],
        Field.OUT_STEP: out[2],
        Field.OUT_WRAP_1: wraps(out)[0],
        Field.OUT_WRAP_0: wraps(out)[1],
    }


def _depth(counts: _Three, left: _Three, right: _Three) -> dict[Field, int]:
    """The loops over the depth, with their strides on both sides."""
    names = ("DEPTH", "LEFT_DEPTH", "RIGHT_DEPTH")
    return {
        Field[f"{name}_{i}"]: values[i]
        for name, values in zip(names, (counts, left, right), strict=True)
        for i in range(3)
    }


def _bound(
    dtype: np.dtype[Any],
    tasks: Sequence[tuple[_Task, _Packing | None]],
    left: Sequence[int],
    filters: Sequence[int],
    out: Sequence[int],
) -> Kernel:
    """The tasks one after another, each with the filters packed as it needs them."""
    steps = []
    for task, packing in tasks:
        size = packing.size if packing else math.prod(filters)
        run, needed = task.bind((math.prod(left), size, math.prod(out)))
        steps.append((run, packing, needed))
    itemsize = dtype.itemsize
    aligned = scratch.ALIGNMENT // itemsize
    packed_size = max((packing.size if packing else 0) for _, packing, _ in steps)
    packed_size = -(-packed_size // aligned) * aligned
    total_bytes = (packed_size + max(needed for *_, needed in steps)) * itemsize
    filters_size = math.prod(filters)

    def kernel(given: Array, weights: Array, result: Array) -> bool:
        if weights.size != filters_size:
            return False
        memory = scratch.take(total_bytes)[:total_bytes].view(dtype)
        rest = memory[packed_size:]
        for run, packing, _ in steps:
            packed = weights
            if packing is not None:
                packed = memory[: packing.size]
                packing(weights, packed)
            if not run(given, packed, result, rest):
                return False
        return True

    return kernel
