"""Looking at values while a step runs: assertions, prints and checks for infinity."""

from __future__ import annotations

import os
import pprint
import sys
from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.control.debugging import *  # noqa: F403
from sparkflow._generated.ops.control.debugging import check_numerics
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import (
    apply_op,
    convert_to_tensor,
    get_default_graph,
    graph_of,
    output_of,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.control.ordering import group
from sparkflow.ops.renamed_arguments import either
from sparkflow_runtime.dtypes import float16, float32, float64, string


@export("Assert", "debugging.Assert")
def Assert(  # TensorFlow's name
    condition: Any, data: Any, summarize: int | None = None, name: str | None = None
) -> Operation:
    """An operation that fails with the values of `data` unless `condition` holds.

    Args:
        condition: A bool scalar.
        data: A list of tensors whose values tell what was wrong.
        summarize: How many elements of each are shown; 3 when None.
        name: Name of the scope.
    """
    graph = graph_of((condition, *data))
    with graph.as_default(), graph.name_scope(name or "Assert"):
        holds = convert_to_tensor(condition, name="Condition")
        values = [convert_to_tensor(each) for each in data]
        count = 3 if summarize is None else summarize
        result: Operation = apply_op("Assert", holds, values, summarize=count, name="Assert")
        return result


@export("Print")
def Print(  # TensorFlow's name
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`input_`; writes `data` to standard error whenever it is computed.

    Args:
        input_: The tensor that is passed on.
        data: A list of tensors to write.
        message: What is written before them.
        first_n: Writes only the first times; always when None or negative.
        summarize: How many elements of each are shown; 3 when None, all when -1.
        name: Name of the node.
    """
    graph = graph_of((input_, *data))
    with graph.as_default():
        passed = convert_to_tensor(input_)
        return output_of(
            "Print",
            passed,
            [convert_to_tensor(each) for each in data],
            message=message or "",
            first_n=-1 if first_n is None else first_n,
            summarize=3 if summarize is None else summarize,
            name=name,
        )


_STREAMS = ("stdout", "stderr", "log(info)", "log(warning)", "log(error)")


@export("print")
def print(*inputs: Any, **kwargs: Any) -> Operation:
    """An operation that writes texts and tensors, anywhere in nested lists and dictionaries.

    Of a sparse tensor it writes the indices, the values and the shape.

    Args:
        *inputs: What is written.
        **kwargs: `output_stream` (sys.stderr, sys.stdout, a log level's name or `file://PATH`;
            standard error when not given), `summarize` (first and last elements shown per axis, 3;
            -1 for all), `sep` (" "), `end` (a line break), `name`.

    Raises:
        ValueError: An unknown argument or stream.
    """
    stream = kwargs.pop("output_stream", sys.stderr)
    summarize = kwargs.pop("summarize", 3)
    separator = kwargs.pop("sep", " ")
    end = kwargs.pop("end", os.linesep)
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {sorted(kwargs)}")
    graph = graph_of(_flat(inputs))
    with graph.as_default():
        stream = _stream_name(stream)
        text = _text(inputs, separator, summarize)
        result: Operation = apply_op("PrintV2", text, output_stream=stream, end=end, name=name)
        return result


def _stream_name(stream: Any) -> str:
    if isinstance(stream, str) and (stream in _STREAMS or stream.startswith("file://")):
        return stream
    if stream is sys.stdout:
        return "stdout"
    if stream is sys.stderr:
        return "stderr"
    raise ValueError(
        f"Unsupported output stream, logging level, or file: {stream!r}. Supported streams are "
        "sys.stdout, sys.stderr, 'log(info)', 'log(warning)', 'log(error)' and 'file://PATH'"
    )


def _flat(values: Any) -> list[Any]:
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [leaf for each in values for leaf in _flat(each)]
    return [values]


class _Placeholder:
    """Stands in a nested structure where a tensor's text goes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_MARK = "\x00tensor\x00"
_SPARSE_MARK = f"'SparseTensor(indices={_MARK}, values={_MARK}, shape={_MARK})'"


def _text(inputs: Any, separator: str, summarize: int) -> Tensor:
    first = inputs[0] if len(inputs) == 1 else None
    if isinstance(first, Tensor) and first.dtype.base is string and first._shape == ():
        return first
    tensors: list[Tensor] = []

    def marked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: marked(each) for key, each in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(marked, value))
        if isinstance(value, list | tuple):
            return type(value)(map(marked, value))
        if isinstance(value, SparseTensor):
            tensors.extend((value.indices, value.values, value.dense_shape))
            return _Placeholder(_SPARSE_MARK)
        if isinstance(value, Tensor) or hasattr(value, "_to_tensor"):
            tensors.append(convert_to_tensor(value))
            return _Placeholder(_MARK)
        return value

    parts = [
        each if isinstance(each, str) else pprint.pformat(marked(each), sort_dicts=False)
        for each in inputs
    ]
    return output_of(
        "StringFormat",
        tensors,
        template=separator.join(parts),
        placeholder=_MARK,
        summarize=summarize,
    )


@export("verify_tensor_all_finite", "debugging.assert_all_finite")
def verify_tensor_all_finite(
    t: Any = None,
    msg: str | None = None,
    name: str | None = None,
    x: Any = None,
    message: str | None = None,
) -> Tensor:
    """`t`, an error that begins with `msg` where it is infinite or not a number."""
    given = either("x", x, "t", t)
    return assert_all_finite(given, either("message", message, "msg", msg) or "", name)


def assert_all_finite(x: Any, message: str, name: str | None = None) -> Tensor:
    """`x`, an error that begins with `message` where it is infinite or not a number."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "VerifyFinite"):
        tensor = convert_to_tensor(x, name="x")
        with graph.colocate_with(tensor.op):
            checked = check_numerics(tensor, message)
            with graph.control_dependencies([checked]):
                return output_of("Identity", tensor)


@export("add_check_numerics_ops")
def add_check_numerics_ops() -> Operation:
    """An operation that checks every floating-point tensor of the default graph so far."""
    graph = get_default_graph()
    checks: list[Any] = []
    for op in graph.get_operations():
        for output in op.outputs:
            if output.dtype.base in (float16, float32, float64) and not output.dtype.is_ref:
                with graph.control_dependencies(checks[-1:]):
                    checks.append(check_numerics(output, f"{op.name}:{output.value_index}"))
    return group(*checks)
