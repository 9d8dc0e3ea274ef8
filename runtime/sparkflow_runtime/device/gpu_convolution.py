"""Convolutions with cuDNN, through its Python front end if that is installed.

The graph of a convolution is built once per shape and cached. Convolutions that cuDNN does not
support (dtype, no engine) are reported as such, and the ops compute them otherwise.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_KINDS: Final = ("forward", "input_gradient", "filter_gradient")
_log = logging.getLogger(__name__)

Sizes = tuple[int, int, int, int]
_DTYPES: Final = {"float32": "FLOAT", "float16": "HALF", "float64": "DOUBLE"}


def front_end() -> Any:
    """Returns the Python front end of cuDNN, None if it is not installed or finds no cuDNN."""
    try:
        cudnn = importlib.import_module("cudnn")
        cudnn.backend_version()
    except Exception:  # it raises its own types if it finds no library
        return None
    return cudnn


@dataclass(frozen=True, slots=True)
class Convolution:
    """One 2-D convolution, forward or one of its two gradients.

    Attributes:
        kind: `forward`, `input_gradient` or `filter_gradient`.
        image: Sizes [batch, channels, height, width], whatever their order in memory.
        filters: Sizes [filters, channels, height, width].
        result: Sizes [batch, filters, height, width] of the forward result.
        channels_last: Whether the memory layout of all three is NHWC; else NCHW.
        strides, dilations: Along height and width.
        before, after: Rows and columns of zeros on each side.
        dtype: numpy's name of the dtype.
    """

    kind: str
    image: Sizes
    filters: Sizes
    result: Sizes
    channels_last: bool
    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    dtype: str

    @property
    def is_supported(self) -> bool:
        """Whether cuDNN may support it."""
        sizes = (*self.image, *self.filters, *self.result)
        return self.kind in _KINDS and self.dtype in _DTYPES and min(sizes) > 0


def strides_of(sizes: Sequence[int], channels_last: bool) -> list[int]:
    """Returns the strides, in elements, of an array [n, channels, height, width].

    >>> strides_of((2, 3, 4, 5), channels_last=True)
    [60, 1, 15, 3]
    >>> strides_of((2, 3, 4, 5), channels_last=False)
    [60, 20, 5, 1]
    """
    _, channels, height, width = sizes
    if channels_last:
        return [channels * height * width, 1, channels * width, channels]
    return [channels * height * width, height * width, width, 1]


@dataclass(frozen=True, slots=True)
class _Built:
    graph: Any
    tensors: tuple[Any, Any, Any]
    workspace_bytes: int


class GpuConvolutions:
    """Convolutions on one GPU, on the current stream. Safe to use from several threads.

    `_lock` guards `_built`, and the handle, which has one stream at a time.

    Args:
        cupy: The module.
        cudnn: The front end.
        tf32: Whether float32 may be multiplied as TF32.
    """

    def __init__(self, cupy: Any, cudnn: Any, tf32: bool = True) -> None:
        self._cupy = cupy
        self._cudnn = cudnn
        self._tf32 = tf32
        self._lock = threading.Lock()
        self._handle: Any = None
        self._built: dict[Convolution, _Built | None] = {}

    def run(self, wanted: Convolution, first: Any, second: Any, out: Any) -> bool:
        """Fills `out`; returns False, without effect, if cuDNN does not support the convolution.

        Args:
            wanted: The convolution.
            first: The image; for `input_gradient` the gradient of the result.
            second: The filters; for `filter_gradient` the gradient of the result.
            out: The result, or the gradient of the image or of the filters. All are contiguous.
        """
        with self._lock:
            if self._handle is None:
                self._handle = self._cudnn.create_handle()
            if wanted not in self._built:
                self._built[wanted] = self._build(wanted)
            built = self._built[wanted]
            if built is None:
                return False
            stream = self._cupy.cuda.get_current_stream()
            self._cudnn.set_stream(handle=self._handle, stream=stream.ptr)
            workspace = self._cupy.empty(max(built.workspace_bytes, 1), np.uint8)
            pointers = {
                tensor: array.data.ptr
                for tensor, array in zip(built.tensors, (first, second, out), strict=True)
            }
            built.graph.execute(pointers, workspace.data.ptr, handle=self._handle)
            return True

    def _build(self, wanted: Convolution) -> _Built | None:
        cudnn = self._cudnn
        if not wanted.is_supported or (wanted.dtype == "float32" and not self._tf32):
            return None  # its engines compute float32 as TF32
        kind = getattr(cudnn.data_type, _DTYPES[wanted.dtype])
        sums = cudnn.data_type.DOUBLE if wanted.dtype == "float64" else cudnn.data_type.FLOAT
        graph = cudnn.pygraph(
            io_data_type=kind,
            intermediate_data_type=sums,
            compute_data_type=sums,
            handle=self._handle,
        )

        def tensor(name: str, sizes: Sequence[int]) -> Any:
            strides = strides_of(sizes, wanted.channels_last)
            return graph.tensor(name=name, dim=list(sizes), stride=strides, data_type=kind)

        how = {
            "pre_padding": list(wanted.before),
            "post_padding": list(wanted.after),
            "stride": list(wanted.strides),
            "dilation": list(wanted.dilations),
        }
        if wanted.kind == "forward":
            given = tensor("image", wanted.image), tensor("filters", wanted.filters)
            made, sizes = graph.conv_fprop(image=given[0], weight=given[1], **how), wanted.result
        elif wanted.kind == "input_gradient":
            given = tensor("loss", wanted.result), tensor("filters", wanted.filters)
            made, sizes = graph.conv_dgrad(loss=given[0], filter=given[1], **how), wanted.image
        else:
            given = tensor("image", wanted.image), tensor("loss", wanted.result)
            made, sizes = graph.conv_wgrad(image=given[0], loss=given[1], **how), wanted.filters
        made.set_output(True).set_data_type(kind)
        made.set_dim(list(sizes)).set_stride(strides_of(sizes, wanted.channels_last))
        try:
            graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        except Exception as error:  # its types differ between versions
            _log.info("cuDNN does not support %s: %s", wanted, error)
            return None
        return _Built(graph, (*given, made), int(graph.get_workspace_size()))
