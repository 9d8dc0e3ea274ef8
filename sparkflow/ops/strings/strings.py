"""`tf.strings`: joining and changing strings. Splitting is in `sparkflow.ragged`."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.strings.strings import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.renamed_arguments import either
from sparkflow_runtime.dtypes import float32, int32, string


@export("string_to_number", "strings.to_number")
def string_to_number(
    string_tensor: Any = None, out_type: Any = float32, name: str | None = None, input: Any = None
) -> Tensor:
    """Converts strings to numbers.

    Args:
        string_tensor: Strings.
        out_type: float32, float64, int32 or int64.
        name: The node's name.
        input: The newer name of `string_tensor`.
    """
    given = either("input", input, "string_tensor", string_tensor)
    return output_of("StringToNumber", given, out_type=out_type, name=name)


@export("string_to_hash_bucket", "strings.to_hash_bucket")
def string_to_hash_bucket(
    string_tensor: Any = None,
    num_buckets: int | None = None,
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Hashes strings to buckets by TensorFlow's legacy hash; new programs use the fast one."""
    given = either("input", input, "string_tensor", string_tensor)
    return output_of("StringToHashBucket", given, num_buckets=num_buckets, name=name)


@export("regex_replace", "strings.regex_replace")
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""Replaces matches of a regular expression.

    Args:
        input: Strings.
        pattern: A regular expression in RE2 syntax.
        rewrite: The replacement; `\1` to `\9` are groups, `\0` is the whole match.
        replace_global: Replace every match, else only the first.
        name: The node's name.
    """
    replaced: Tensor
    if isinstance(pattern, str) and isinstance(rewrite, str):
        replaced = apply_op(
            "StaticRegexReplace",
            input,
            pattern=pattern,
            rewrite=rewrite,
            replace_global=replace_global,
            name=name,
        )
    else:
        replaced = apply_op(
            "RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name
        )
    return replaced


@export("strings.regex_full_match")
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether each whole string matches a regular expression in RE2 syntax."""
    matches: Tensor
    if isinstance(pattern, str):
        matches = apply_op("StaticRegexFullMatch", input, pattern=pattern, name=name)
    else:
        matches = apply_op("RegexFullMatch", input, pattern, name=name)
    return matches


@export("strings.format")
def string_format(
    template: str,
    inputs: Any,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """Formats tensors: replaces the placeholders of a template.

    Args:
        template: The template.
        inputs: A tensor or a list of tensors, one per placeholder.
        placeholder: The placeholder.
        summarize: The number of entries shown at both ends of each axis; -1 for all.
        name: The node's name.

    Raises:
        ValueError: The numbers of placeholders and inputs differ.
    """
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if template.count(placeholder) != len(values):
        raise ValueError(
            f"The template expects {template.count(placeholder)} tensors, but the inputs only has "
            f"{len(values)}. Please ensure the number of placeholders in template matches inputs "
            "length."
        )
    return output_of(
        "StringFormat",
        [convert_to_tensor(each) for each in values],
        template=template,
        placeholder=placeholder,
        summarize=summarize,
        name=name,
    )


@export("reduce_join", "strings.reduce_join")
def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Joins strings along axes.

    Args:
        inputs: Strings.
        axis: One axis or several, of which the first varies fastest; all if None.
        keep_dims: The older name of `keepdims`.
        separator: Put between strings.
        name: The node's name.
        reduction_indices: The older name of `axis`.
        keepdims: Keep the axes, with size 1.
    """
    values = convert_to_tensor(inputs, string)
    axes = either("axis", axis, "reduction_indices", reduction_indices)
    if axes is None:
        rank = values.shape.ndims
        if rank is not None:
            axes = list(range(rank - 1, -1, -1))
        else:
            counted = apply_op("Rank", values)
            axes = apply_op("Range", apply_op("Sub", counted, 1), -1, -1)
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    return output_of(
        "ReduceJoin",
        values,
        convert_to_tensor(axes, int32),
        keep_dims=keep,
        separator=separator,
        name=name,
    )


@export("strings.ngrams")
def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns n-grams: joined runs of adjacent strings.

    Args:
        data: [..., n] strings.
        ngram_width: The length of n-grams: an integer or several.
        separator: Put between strings.
        pad_values: A string to pad both ends with, or a pair; no padding if None.
        padding_width: The number of pads; one less than the width if None.
        preserve_short_sequences: Return a row that is too short as one n-gram.
        name: Name scope of the nodes.

    Returns:
        [..., number of n-grams] strings.

    Raises:
        ValueError: A width below 1, or a rank that is unknown or 0.
        TypeError: `pad_values` are not strings.
    """
    left, right = _pads(pad_values)
    widths = list(ngram_width) if isinstance(ngram_width, list | tuple) else [ngram_width]
    if min(widths, default=1) < 1:
        raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
    if padding_width is not None and padding_width < 0:
        raise ValueError(f"padding_width must be non-negative. Got {padding_width}")
    pad_width = -1 if padding_width is None else padding_width
    if pad_values is None:
        pad_width = 0
    with name_scope(name, "StringNGrams", [data]):
        values = convert_to_tensor(data, string)
        if not values.shape.ndims:
            raise ValueError(f"ngrams expects data of known rank above 0, got {values.shape}")
        sizes = apply_op("Shape", values)
        flat = apply_op("Reshape", values, [-1])
        length = apply_op("StridedSlice", sizes, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
        total = apply_op("Size", values)
        splits = apply_op("Range", 0, apply_op("AddV2", total, 1), apply_op("Maximum", length, 1))
        found, _ = apply_op(
            "StringNGrams",
            flat,
            apply_op("Cast", splits, DstT="int64"),
            separator=separator,
            ngram_widths=widths,
            left_pad=left,
            right_pad=right,
            pad_width=pad_width,
            preserve_short_sequences=preserve_short_sequences,
        )
        head = apply_op("StridedSlice", sizes, [0], [-1], [1], begin_mask=1)
        return output_of("Reshape", found, apply_op("ConcatV2", [head, [-1]], 0))


def _pads(pad_values: Any) -> tuple[str, str]:
    if pad_values is None:
        return "", ""
    if isinstance(pad_values, str):
        return pad_values, pad_values
    if isinstance(pad_values, list | tuple) and len(pad_values) == 2:
        left, right = pad_values
        if isinstance(left, str) and isinstance(right, str):
            return left, right
    raise TypeError(f"pad_values must be a string, tuple of strings, or None, got {pad_values!r}")


def require_row(value: Tensor, function: str) -> bool:
    """Whether there is a row of strings instead of one.

    Raises:
        ValueError: There are more dimensions, or the rank is unknown.
    """
    if value.shape.ndims not in (0, 1):
        raise ValueError(
            f"tf.strings.{function} takes one string or one row of them, got shape {value.shape}: "
            "reshape to [-1] first"
        )
    return value.shape.ndims == 1


@export("decode_raw", "io.decode_raw")
def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """Decodes the bytes of strings as numbers, along a new last axis.

    Args:
        input_bytes: Strings of the same length.
        out_type: The dtype of the numbers.
        little_endian: The order of their bytes.
        name: The node's name.
        bytes: The older name of `input_bytes`.
    """
    given = either("input_bytes", input_bytes, "bytes", bytes)
    return output_of("DecodeRaw", given, out_type=out_type, little_endian=little_endian, name=name)
