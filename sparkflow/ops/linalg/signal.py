"""Signals in frames: windows, short-time Fourier transforms, mel spectrograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.indexing.segment import unsorted_segment_sum
from sparkflow.ops.linalg.fourier import dct, irfft, resized, rfft
from sparkflow_runtime.dtypes import as_dtype, float32, int32


def _raised_cosine(
    name: str, length: Any, periodic: Any, dtype: Any, first: float, second: float
) -> Tensor:
    kind = as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {kind}")
    graph = graph_of((length, periodic))
    with graph.as_default(), graph.name_scope(name):
        size = convert_to_tensor(length, int32, "window_length")
        is_periodic = cast(convert_to_tensor(periodic, "bool", "periodic"), int32)
        even = 1 - apply_op("FloorMod", size, 2)
        # A window of one element is 1.
        steps = cast(apply_op("Maximum", size + is_periodic * even - 1, 1), kind)
        place = cast(apply_op("Range", 0, size, 1), kind)
        window = first - second * apply_op("Cos", place * (2 * math.pi) / steps)
        alone = apply_op("Equal", size, 1)
        return output_of("SelectV2", alone, apply_op("OnesLike", window), window)


@export("signal.hann_window")
def hann_window(
    window_length: Any, periodic: Any = True, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The Hann window: [window_length].

    Args:
        window_length: The number of elements.
        periodic: Whether the element after the last would be the first; else symmetric.
        dtype: A floating-point type.
        name: Name of the scope.

    Raises:
        ValueError: Another type.
    """
    return _raised_cosine(name or "hann_window", window_length, periodic, dtype, 0.5, 0.5)


@export("signal.hamming_window")
def hamming_window(
    window_length: Any, periodic: Any = True, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The Hamming window; arguments as for `hann_window`."""
    return _raised_cosine(name or "hamming_window", window_length, periodic, dtype, 0.54, 0.46)


@export("signal.kaiser_window")
def kaiser_window(
    window_length: Any, beta: float = 12.0, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The Kaiser window of shape `beta`: [window_length]."""
    kind = as_dtype(dtype)
    graph = graph_of((window_length,))
    with graph.as_default(), graph.name_scope(name or "kaiser_window"):
        size = convert_to_tensor(window_length, int32, "window_length")
        half = cast(size - 1, kind) / 2.0
        place = cast(apply_op("Range", 0, size, 1), kind) - half
        ratio = apply_op("DivNoNan", place, half)
        root = apply_op("Sqrt", apply_op("Maximum", 1.0 - apply_op("Square", ratio), 0.0))
        top = apply_op("BesselI0", root * beta)
        result: Tensor = top / apply_op("BesselI0", convert_to_tensor(beta, kind))
        return result


@export("signal.vorbis_window")
def vorbis_window(window_length: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """The window of the Vorbis codec: [window_length]."""
    kind = as_dtype(dtype)
    graph = graph_of((window_length,))
    with graph.as_default(), graph.name_scope(name or "vorbis_window"):
        size = convert_to_tensor(window_length, int32, "window_length")
        place = cast(apply_op("Range", 0, size, 1), kind)
        inner = apply_op("Sin", (place + 0.5) * math.pi / cast(size, kind))
        return output_of("Sin", apply_op("Square", inner) * (math.pi / 2.0))


def _last_size(tensor: Tensor, axis: int = -1) -> Any:
    size = None if tensor._shape is None else tensor._shape[axis]
    return apply_op("Shape", tensor)[axis] if size is None else size


def _number(value: Any) -> Any:
    """A Python number where the graph tells it, else the tensor."""
    if not isinstance(value, Symbolic):
        return int(value)
    given = convert_to_tensor(value)
    known = constant_value(given)
    return given if known is None else int(known)


@export("signal.frame")
def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Overlapping frames of a signal: the axis becomes [frames, frame_length].

    Args:
        signal: [..., samples, ...].
        frame_length: Samples per frame.
        frame_step: Samples from the start of one frame to that of the next.
        pad_end: Whether the last frames are filled up with `pad_value`, else they are left out.
        pad_value: What fills them.
        axis: The axis of the samples.
        name: Name of the scope.
    """
    graph = graph_of((signal, frame_length, frame_step))
    with graph.as_default(), graph.name_scope(name or "frame"):
        tensor = convert_to_tensor(signal, name="signal")
        rank = None if tensor._shape is None else len(tensor._shape)
        if rank is None:
            raise ValueError("The rank of the signal must be known to frame it")
        place = axis % rank
        length, step = _number(frame_length), _number(frame_step)
        size = _last_size(tensor, place)
        if pad_end:
            count = (size + step - 1) // step
            missing = apply_op("Maximum", length + step * (count - 1) - size, 0)
            paddings = [[0, 0]] * place + [[0, missing]] + [[0, 0]] * (rank - 1 - place)
            filler = convert_to_tensor(pad_value, tensor.dtype.base)
            tensor = apply_op("PadV2", tensor, paddings, filler)
        elif isinstance(size, int) and isinstance(length, int) and isinstance(step, int):
            count = max(0, 1 + (size - length) // step)
        else:
            count = apply_op("Maximum", 1 + (size - length) // step, 0)
        starts = apply_op("Range", 0, count, 1) * step
        inside = apply_op("Range", 0, length, 1)
        indices = apply_op("ExpandDims", starts, 1) + apply_op("ExpandDims", inside, 0)
        return output_of("GatherV2", tensor, indices, place)


@export("signal.overlap_and_add")
def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """The signal [..., samples] of frames [..., frames, frame_length]; overlaps are added."""
    graph = graph_of((signal, frame_step))
    with graph.as_default(), graph.name_scope(name or "overlap_and_add"):
        tensor = convert_to_tensor(signal, name="signal")
        if tensor._shape is not None and len(tensor._shape) < 2:
            raise ValueError("signal must be at least rank 2.")
        step = convert_to_tensor(frame_step, name="frame_step")
        if step._shape not in (None, ()):
            raise ValueError("frame_step must be a scalar.")
        if not step.dtype.is_integer:
            raise ValueError("frame_step must be an integer.")
        stride = _number(step)
        frames, length = _last_size(tensor, -2), _last_size(tensor, -1)
        starts = apply_op("Range", 0, frames, 1) * stride
        inside = apply_op("Range", 0, length, 1)
        positions = apply_op("ExpandDims", starts, 1) + apply_op("ExpandDims", inside, 0)
        rank = apply_op("Rank", tensor)
        axes = apply_op("Range", 0, rank, 1)
        moved = apply_op("Transpose", tensor, apply_op("Roll", axes, 2, 0))
        summed = unsorted_segment_sum(moved, positions, (frames - 1) * stride + length)
        back = apply_op("Roll", apply_op("Range", 0, rank - 1, 1), -1, 0)
        result: Tensor = apply_op("Transpose", summed, back)
        if tensor._shape is not None:
            whole = constant_value(convert_to_tensor((frames - 1) * stride + length))
            result.set_shape([*tensor._shape[:-2], None if whole is None else int(whole)])
        return result


def _power_of_two(length: Any) -> Any:
    """The least power of 2 that is not less."""
    if isinstance(length, int):
        return 1 << max(0, length - 1).bit_length()
    wide = cast(length, "float64")
    power = apply_op("Ceil", apply_op("Log", wide) / math.log(2.0))
    return cast(apply_op("Pow", convert_to_tensor(2.0, "float64"), power), int32)


@export("signal.stft")
def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Tensor] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """The spectra of windowed frames: [..., frames, fft_length / 2 + 1] complex.

    Args:
        signals: [..., samples] float32 or float64.
        frame_length: Samples per frame.
        frame_step: Samples from one frame to the next.
        fft_length: The length of the transform; the enclosing power of 2 when None.
        window_fn: Makes a window of a length and `dtype`; none is used when None.
        pad_end: Whether the last frames are filled up with zeros.
        name: Name of the scope.
    """
    graph = graph_of((signals, frame_length, frame_step))
    with graph.as_default(), graph.name_scope(name or "stft"):
        tensor = convert_to_tensor(signals, name="signals")
        length = _number(frame_length)
        size = _power_of_two(length) if fft_length is None else _number(fft_length)
        frames = frame(tensor, length, frame_step, pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=tensor.dtype.base)
        return rfft(frames, [size])


@export("signal.inverse_stft")
def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Tensor] | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """The signals of windowed spectra; arguments as for `stft`."""
    graph = graph_of((stfts, frame_length, frame_step))
    with graph.as_default(), graph.name_scope(name or "inverse_stft"):
        tensor = convert_to_tensor(stfts, name="stfts")
        length = _number(frame_length)
        size = _power_of_two(length) if fft_length is None else _number(fft_length)
        frames = resized(irfft(tensor, [size]), length)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype.base)
        return overlap_and_add(frames, frame_step)


@export("signal.inverse_stft_window_fn")
def inverse_stft_window_fn(
    frame_step: Any,
    forward_window_fn: Callable[..., Tensor] = hann_window,
    name: str | None = None,
) -> Callable[..., Tensor]:
    """The window for `inverse_stft` that undoes `stft` with the forward window exactly."""

    def inverse_window(frame_length: Any, dtype: Any) -> Tensor:
        graph = graph_of((frame_length, frame_step))
        with graph.as_default(), graph.name_scope(name or "inverse_stft_window_fn"):
            length, step = int(_number(frame_length)), int(_number(frame_step))
            window = forward_window_fn(length, dtype=dtype)
            overlaps = -(-length // step)
            squares = resized(apply_op("Square", window), overlaps * step)
            rows = apply_op("Reshape", squares, [overlaps, step])
            sums = apply_op("Sum", rows, 0, keep_dims=True)
            tiled = apply_op("Reshape", apply_op("Tile", sums, [overlaps, 1]), [overlaps * step])
            result: Tensor = window / tiled[:length]
            return result

    return inverse_window


@export("signal.linear_to_mel_weight_matrix")
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """The weights [num_spectrogram_bins, num_mel_bins] of spectrogram bins in mel bins.

    Raises:
        ValueError: No bins, or edges out of order or beyond half the sample rate.
    """
    if num_mel_bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
    if lower_edge_hertz < 0.0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower_edge_hertz}")
    if lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(
            f"lower_edge_hertz {lower_edge_hertz:.1f} >= upper_edge_hertz {upper_edge_hertz:.1f}"
        )
    rate, bins = float(_number(sample_rate)), int(_number(num_spectrogram_bins))
    if upper_edge_hertz > rate / 2:
        raise ValueError(
            "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). "
            f"Got {upper_edge_hertz} for sample_rate: {rate}"
        )
    kind = as_dtype(dtype)

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0)

    # The lowest bin, of frequency 0, has no weight.
    frequencies = mel(np.linspace(0.0, rate / 2, bins)[1:])[:, None]
    edges = np.linspace(mel(lower_edge_hertz), mel(upper_edge_hertz), num_mel_bins + 2)
    lower, center, upper = edges[:-2], edges[1:-1], edges[2:]
    rising = (frequencies - lower) / (center - lower)
    falling = (upper - frequencies) / (upper - center)
    weights = np.pad(np.maximum(0.0, np.minimum(rising, falling)), [[1, 0], [0, 0]])
    return convert_to_tensor(
        weights.astype(kind.as_numpy_dtype), name=name or "linear_to_mel_weight_matrix"
    )


@export("signal.mfccs_from_log_mel_spectrograms")
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """The cepstral coefficients of log-magnitude mel spectrograms [..., num_mel_bins]."""
    graph = graph_of((log_mel_spectrograms,))
    with graph.as_default(), graph.name_scope(name or "mfccs_from_log_mel_spectrograms"):
        tensor = convert_to_tensor(log_mel_spectrograms)
        size = _last_size(tensor)
        if isinstance(size, int) and size == 0:
            raise ValueError("num_mel_bins must be positive. Got: 0")
        scale = apply_op("Rsqrt", cast(convert_to_tensor(size * 2), tensor.dtype.base))
        result: Tensor = dct(tensor, 2) * scale
        return result
