"""Nodes that write tensors down for TensorBoard. Their values are serialised `Summary` messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import add_to_collections, apply_op, get_collection, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.summary.naming import summary_scope
from sparkflow_runtime import dtypes
from sparkflow_runtime.protos.summary_pb2 import SummaryDescription, SummaryMetadata


def collect(summary: Tensor, collections: Sequence[str] | None, default: Sequence[str]) -> None:
    """Adds a summary to `collections`, or to `default` if that is None."""
    add_to_collections(default if collections is None else collections, summary)


def scalar(
    name: str,
    tensor: Any,
    collections: Sequence[str] | None = None,
    family: str | None = None,
    display_name: str | None = None,
    description: str | None = None,
) -> Tensor:
    """One number, as a line over the steps.

    Args:
        name: The tag, after the name scope.
        tensor: A scalar of a real type.
        collections: Where to keep it; `GraphKeys.SUMMARIES` when None.
        family: A prefix of the tag under which TensorBoard groups.
        display_name: Ignored; the tag is shown.
        description: Ignored.

    Returns:
        A scalar string: the serialised message.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        result: Tensor = apply_op("ScalarSummary", tag, tensor, name=scope)
        collect(result, collections, [GraphKeys.SUMMARIES])
    return result


def histogram(
    name: str, values: Any, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """How the elements of a tensor are distributed, over the steps.

    Args:
        name: The tag, after the name scope.
        values: A real tensor of any shape. A value that is not finite ends the step with
            InvalidArgumentError.
        collections: As for `scalar`.
        family: As for `scalar`.

    Returns:
        A scalar string: the serialised message.
    """
    with summary_scope(name, family, "HistogramSummary", [values]) as (tag, scope):
        result: Tensor = apply_op("HistogramSummary", tag, values, name=scope)
        collect(result, collections, [GraphKeys.SUMMARIES])
    return result


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Images, as PNG files.

    Args:
        name: The tag, after the name scope; `/image`, or `/image/0` and so on, is added.
        tensor: [batch, height, width, channels] with 1 (grey), 3 (RGB) or 4 (RGBA) channels;
            uint8 as it is, float16, float32 or float64 scaled per image to the full range.
        max_outputs: So many of the batch.
        collections: As for `scalar`.
        family: As for `scalar`.

    Returns:
        A scalar string: the serialised message.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        result: Tensor = apply_op("ImageSummary", tag, tensor, max_images=max_outputs, name=scope)
        collect(result, collections, [GraphKeys.SUMMARIES])
    return result


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Sound, as WAV files.

    Args:
        name: The tag, after the name scope; `/audio`, or `/audio/0` and so on, is added.
        tensor: [batch, frames] or [batch, frames, channels] float32 from -1 to 1.
        sample_rate: Frames per second, a float or scalar float32 tensor.
        max_outputs: So many of the batch.
        collections: As for `scalar`.
        family: As for `scalar`.

    Returns:
        A scalar string: the serialised message.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        result: Tensor = apply_op(
            "AudioSummaryV2", tag, tensor, sample_rate, max_outputs=max_outputs, name=scope
        )
        collect(result, collections, [GraphKeys.SUMMARIES])
    return result


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Sequence[str] | None = None,
    summary_metadata: SummaryMetadata | None = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """A tensor as it is, for plugins of TensorBoard.

    Args:
        name: The tag, after the name scope.
        tensor: Any tensor.
        summary_description: Text that TensorBoard shows with it.
        collections: As for `scalar`.
        family: As for `scalar`.
        summary_metadata: The plugin and what it needs to know.
        display_name: Shown in place of the tag.

    Returns:
        A scalar string: the serialised message.
    """
    metadata = SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        result: Tensor = apply_op(
            "TensorSummaryV2", tag, tensor, metadata.SerializeToString(), name=scope
        )
        collect(result, collections, [GraphKeys.SUMMARIES])
    return result


def text(name: str, tensor: Any, collections: Sequence[str] | None = None) -> Tensor:
    """Text; Markdown and tables (string matrices) are rendered by TensorBoard.

    Args:
        name: The tag, after the name scope.
        tensor: Strings of any shape.
        collections: As for `scalar`.

    Returns:
        A scalar string: the serialised message.

    Raises:
        ValueError: The tensor is not one of strings.
    """
    if tensor.dtype != dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return tensor_summary(name, tensor, collections=collections, summary_metadata=metadata)


def merge(
    inputs: Sequence[Any], collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """The values of several summaries in one.

    Args:
        inputs: String tensors with serialised summaries. A tag that is in two of them ends the
            step with InvalidArgumentError.
        collections: Where to keep the result; nowhere when None.
        name: Name of the scope.

    Returns:
        A scalar string: the serialised message.

    Raises:
        ValueError: `inputs` is empty.
    """
    inputs = list(inputs)
    if not inputs:
        raise ValueError(
            "List argument 'inputs' to 'MergeSummary' Op with length 0 shorter than minimum "
            "length 1."
        )
    with name_scope(name, "Merge", inputs):
        result: Tensor = apply_op("MergeSummary", inputs, name=name)
        collect(result, collections, [])
    return result


def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """All summaries of a collection of the default graph in one.

    Args:
        key: The collection.
        scope: A regular expression; only summaries whose names it matches at the start.
        name: Name of the scope.

    Returns:
        A scalar string, or None when there is no summary.
    """
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def: Any) -> SummaryDescription:
    """The description that an early `TensorSummary` node carries.

    Args:
        node_def: A NodeDef of op type `TensorSummary`.

    Raises:
        ValueError: It is of another type.
    """
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    written = node_def.attr["description"].s.decode()
    description = SummaryDescription()
    json_format.ParseDict(json.loads(written), description)
    return description
