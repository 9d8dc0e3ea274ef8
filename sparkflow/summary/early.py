"""Summaries under their names of TensorFlow 0.x: `tf.scalar_summary` and its like.

Their tags are taken as they are, without the name scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import apply_op, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.summary.summaries import collect, merge, merge_all


@export("scalar_summary")
def scalar_summary(
    tags: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """One number per tag; `tags` and `values` have one shape. See `sparkflow.summary.scalar`."""
    return _add("ScalarSummary", (tags, values), collections, name)


@export("histogram_summary")
def histogram_summary(
    tag: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """The distribution of a tensor's elements, see `sparkflow.summary.histogram`."""
    return _add("HistogramSummary", (tag, values), collections, name)


@export("image_summary")
def image_summary(
    tag: Any,
    tensor: Any,
    max_images: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """Images, see `sparkflow.summary.image`."""
    return _add("ImageSummary", (tag, tensor), collections, name, max_images=max_images)


@export("audio_summary")
def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """Sound, see `sparkflow.summary.audio`."""
    inputs = (tag, tensor, sample_rate)
    return _add("AudioSummaryV2", inputs, collections, name, max_outputs=max_outputs)


@export("merge_summary")
def merge_summary(
    inputs: Sequence[Any], collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Several summaries in one, see `sparkflow.summary.merge`."""
    return merge(inputs, collections, name)


@export("merge_all_summaries")
def merge_all_summaries(key: str = GraphKeys.SUMMARIES) -> Tensor | None:
    """All summaries of a collection in one, see `sparkflow.summary.merge_all`."""
    return merge_all(key)


def _add(
    op_type: str,
    inputs: Sequence[Any],
    collections: Sequence[str] | None,
    name: str | None,
    **attrs: Any,
) -> Tensor:
    with name_scope(name, op_type, inputs) as scope:
        result: Tensor = apply_op(op_type, *inputs, name=scope, **attrs)
        collect(result, collections, [GraphKeys.SUMMARIES])
    return result
