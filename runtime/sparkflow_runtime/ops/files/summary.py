"""Summaries: ops that write a tensor down as a serialised `Summary` for event files.

They run on the CPU only: encoding is work for the host. How numbers become histograms, pictures and
sound is in `events`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.dtypes import REAL, float16, float32, float64, uint8
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.events.audio import encode_wav
from sparkflow_runtime.events.histogram import histogram
from sparkflow_runtime.events.images import as_bytes, encode_png
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    Attr,
    float_attr,
    int_attr,
    list_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.protos.summary_pb2 import Summary, SummaryMetadata
from sparkflow_runtime.tensor_proto import export_tensor

_DEPTHS: Final = (1, 3, 4)
_RED: Final = np.array([255, 0, 0, 255], np.uint8)


class _Summary(Op):
    outputs = "summary: string"
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = scalars


def _written(summary: Summary) -> Array:
    return np.array(summary.SerializeToString(), object)


def _tag(tag: Array) -> str:
    if tag.ndim:
        raise InvalidArgumentError(
            message=f"tag must be scalar, got one of shape {bracketed(tag.shape)}"
        )
    return _text(tag[()])


def _text(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _numbered(tag: str, kind: str, index: int, most: int) -> str:
    return f"{tag}/{kind}/{index}" if most > 1 else f"{tag}/{kind}"


@register
class ScalarSummary(_Summary):
    """One number per tag; both of one shape."""

    inputs = "tags: string, values: T"
    attrs = {"T": type_attr(REAL)}

    def compute(self, xp: Any, tags: Array, values: Array) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: Tags and values have different shapes.
        """
        if tags.shape != values.shape:
            only = f" (tag '{_text(tags[()])}')" if not tags.ndim else ""
            raise InvalidArgumentError(
                message="tags and values are not the same shape: "
                f"{bracketed(tags.shape)} != {bracketed(values.shape)}{only}"
            )
        summary = Summary()
        for tag, value in zip(tags.flat, np.asarray(values).flat, strict=True):
            summary.value.add(tag=_text(tag), simple_value=float(value))
        return _written(summary)


@register
class HistogramSummary(_Summary):
    """The histogram of all elements of a tensor."""

    inputs = "tag: string, values: T"
    attrs = {"T": type_attr(REAL, float32)}

    def compute(self, xp: Any, tag: Array, values: Array) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: A value is not finite.
        """
        name = _tag(tag)
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            if np.isnan(array).any():
                raise InvalidArgumentError(message=f"Nan in summary histogram for: {name}")
            if np.isinf(array).any():
                raise InvalidArgumentError(message=f"Infinity in Histogram for: {name}")
        summary = Summary()
        summary.value.add(tag=name, histo=histogram(array))
        return _written(summary)


@register
class ImageSummary(_Summary):
    """The first images of a batch: [batch, height, width, 1, 3 or 4 channels] as PNG files."""

    inputs = "tag: string, tensor: T"
    attrs = {
        "max_images": int_attr(3, minimum=1),
        "T": type_attr(frozenset({uint8, float32, float16, float64}), float32),
        "bad_color": Attr("tensor", _RED),
    }

    def compute(
        self, xp: Any, tag: Array, tensor: Array, *, max_images: int, bad_color: Array
    ) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: The tensor is no batch of images, or an image is empty.
        """
        name = _tag(tag)
        if tensor.ndim != 4 or tensor.shape[3] not in _DEPTHS:
            raise InvalidArgumentError(
                message="Tensor must be 4-D with last dim 1, 3, or 4, not "
                f"{bracketed(tensor.shape)}"
            )
        height, width, depth = tensor.shape[1:]
        if not height or not width:
            raise InvalidArgumentError(
                message=f"input tensor must have non-zero dims. Found: {list(tensor.shape)}."
            )
        if bad_color.ndim != 1 or bad_color.dtype != np.uint8 or len(bad_color) < depth:
            raise InvalidArgumentError(
                message=f"expected depth <= bad_color.size, got depth = {depth}, "
                f"bad_color.size = {bad_color.size}"
            )
        summary = Summary()
        for index, image in enumerate(tensor[:max_images]):
            pixels = image if image.dtype == np.uint8 else as_bytes(image, bad_color)
            value = summary.value.add(tag=_numbered(name, "image", index, max_images))
            value.image.height, value.image.width = height, width
            value.image.colorspace = depth
            value.image.encoded_image_string = encode_png(pixels)
        return _written(summary)


def _audio(tag: Array, tensor: Array, sample_rate: float, max_outputs: int) -> Array:
    name = _tag(tag)
    if tensor.ndim not in (2, 3):
        raise InvalidArgumentError(
            message=f"Tensor must be 3-D or 2-D, got: {bracketed(tensor.shape)}"
        )
    if not sample_rate > 0:
        raise InvalidArgumentError(message=f"sample_rate must be > 0, got {sample_rate:g}")
    clips = tensor if tensor.ndim == 3 else tensor[:, :, None]
    frames, channels = clips.shape[1:]
    if not channels:
        raise InvalidArgumentError(message="audio must have at least one channel, got none")
    summary = Summary()
    for index, clip in enumerate(clips[:max_outputs]):
        value = summary.value.add(tag=_numbered(name, "audio", index, max_outputs))
        value.audio.sample_rate = sample_rate
        value.audio.num_channels, value.audio.length_frames = channels, frames
        value.audio.encoded_audio_string = encode_wav(clip, int(sample_rate))
        value.audio.content_type = "audio/wav"
    return _written(summary)


@register
class AudioSummaryV2(_Summary):
    """The first clips of a batch: [batch, frames] or [batch, frames, channels] as WAV files."""

    inputs = "tag: string, tensor: float32, sample_rate: float32"
    attrs = {"max_outputs": int_attr(3, minimum=1)}

    def compute(
        self, xp: Any, tag: Array, tensor: Array, sample_rate: Array, *, max_outputs: int
    ) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: The tensor is no batch of clips, or the rate is not positive.
        """
        return _audio(tag, tensor, float(sample_rate), max_outputs)


@register
class AudioSummary(_Summary):
    """As `AudioSummaryV2`, with the rate as an attribute."""

    inputs = "tag: string, tensor: float32"
    attrs = {"sample_rate": float_attr(), "max_outputs": int_attr(3, minimum=1)}

    def compute(
        self, xp: Any, tag: Array, tensor: Array, *, sample_rate: float, max_outputs: int
    ) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: The tensor is no batch of clips, or the rate is not positive.
        """
        return _audio(tag, tensor, sample_rate, max_outputs)


@register
class TensorSummaryV2(_Summary):
    """The tensor itself, with what a plugin of TensorBoard needs to show it."""

    widens = ()  # the bits count
    inputs = "tag: string, tensor: T, serialized_summary_metadata: string"
    attrs = {"T": type_attr()}

    def compute(self, xp: Any, tag: Array, tensor: Array, metadata: Array) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: The metadata are no SummaryMetadata.
        """
        summary = Summary()
        value = summary.value.add(tag=_tag(tag), tensor=export_tensor(tensor))
        try:
            value.metadata.CopyFrom(SummaryMetadata.FromString(metadata[()]))
        except DecodeError as error:
            raise InvalidArgumentError(
                message=f"serialized_summary_metadata is no SummaryMetadata: {error}"
            ) from error
        return _written(summary)


@register
class TensorSummary(_Summary):
    """The tensor itself, under the node's name in graphs of early TensorFlow 1."""

    widens = ()  # the bits count
    inputs = "tensor: T"
    attrs = {
        "T": type_attr(),
        "description": string_attr(""),
        "labels": list_attr("string", []),
        "display_name": string_attr(""),
    }

    def compute(self, xp: Any, tensor: Array) -> Array:
        """The message."""
        summary = Summary()
        summary.value.add(tensor=export_tensor(tensor))
        return _written(summary)


@register
class MergeSummary(_Summary):
    """All values of several summaries in one."""

    inputs = "inputs: N * string"
    attrs = {"N": int_attr(minimum=1)}

    def compute(self, xp: Any, *inputs: Array) -> Array:
        """The message.

        Raises:
            InvalidArgumentError: An input is no Summary, or a tag is in there twice.
        """
        merged = Summary()
        seen: set[str] = set()
        for each in inputs:
            for item in np.asarray(each).flat:
                try:
                    merged.MergeFromString(item)
                except DecodeError as error:
                    raise InvalidArgumentError(
                        message=f"Could not parse one of the summary inputs: {error}"
                    ) from error
        for value in merged.value:
            if value.tag and value.tag in seen:
                raise InvalidArgumentError(
                    message=f"Duplicate tag {value.tag} found in summary inputs"
                )
            seen.add(value.tag)
        return _written(merged)
