"""Ops that inspect values while a step runs: `Assert`, `Print`, and formatting of tensors.

Tensors are formatted in `tensor_text`; `CheckNumerics` is in `constants`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import FILES, Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr, string_attr, type_attr
from sparkflow_runtime.ops.strings.tensor_text import all_elements, edge_elements
from sparkflow_runtime.shapes import Shape

_ON_HOST = {"CPU": None}
_FILE = "file://"


def _host(value: Array) -> np.ndarray[Any, Any]:
    return np.asarray(value.get() if hasattr(value, "get") else value)


@register
class Assert(Op):
    """Raises an error with the values of `data` unless the condition holds."""

    copyable = True
    inputs = "condition: bool, data: T"
    attrs = {"T": list_attr("type", minimum=1), "summarize": int_attr(3)}
    stateful = True
    keeps_inputs = False
    kernels = _ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Nothing: it has no output."""
        node.with_rank(0, 0, "condition")
        return []

    def compute(self, xp: Any, condition: Array, *data: Array, summarize: int) -> tuple[()]:
        """Nothing.

        Raises:
            InvalidArgumentError: The condition is false.
        """
        if not condition:
            count = 1 << 62 if summarize == -1 else summarize
            parts = " ".join(f"[{all_elements(_host(each), count)}]" for each in data)
            raise InvalidArgumentError(message=f"assertion failed: {parts}")
        return ()


@register
class Print(Op):
    """The identity; writes `message` and the values of `data` to standard error when it runs."""

    inputs = "input: T, data: U"
    outputs = "output: T"
    aliases = frozenset({"input"})
    attrs = {
        "T": type_attr(),
        "U": list_attr("type"),
        "message": string_attr(""),
        "first_n": int_attr(-1),
        "summarize": int_attr(3),
    }
    stateful = True
    keeps_inputs = False
    kernels = _ON_HOST
    infer = same_as(0)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, with the session's count of the node's messages."""
        attrs = node.attrs
        first_n, count = attrs["first_n"], attrs["summarize"]
        written = context.session.get_or_create("", node.name, itertools.count, itertools.count)

        def run(value: Array, *data: Array) -> Array:
            if first_n < 0 or next(written) < first_n:
                limit = 1 << 62 if count == -1 else count
                parts = "".join(f"[{all_elements(_host(each), limit)}]" for each in data)
                sys.stderr.write(f"{attrs['message']}{parts}\n")
                sys.stderr.flush()
            return value

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """As the identity."""
        return [dy] + [None] * (len(op.inputs) - 1)


@register
class PrintV2(Op):
    """Writes a string to standard error, standard output, a log level's stream or a file."""

    inputs = "input: string"
    attrs = {"output_stream": string_attr("stderr"), "end": string_attr("\n")}
    reaches = frozenset({FILES})
    stateful = True
    keeps_inputs = False
    kernels = _ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Nothing: it has no output."""
        node.with_rank(0, 0, "input")
        return []

    def reach(self, attrs: Mapping[str, Any]) -> Set[str]:
        """The file that is written; none for a stream."""
        is_file = attrs["output_stream"].startswith(_FILE)
        return self.reaches or frozenset() if is_file else frozenset()

    def compute(self, xp: Any, text: Array, *, output_stream: str, end: str) -> tuple[()]:
        """Nothing.

        Raises:
            InvalidArgumentError: There is no such stream.
        """
        line = _host(text).item().decode("utf-8", "replace") + end
        if output_stream.startswith(_FILE):
            with Path(output_stream.removeprefix(_FILE)).open("a") as file:
                file.write(line)
        elif output_stream == "stdout":
            sys.stdout.write(line)
            sys.stdout.flush()
        elif output_stream == "stderr" or output_stream in _LEVELS:
            sys.stderr.write(line)
            sys.stderr.flush()
        else:
            raise InvalidArgumentError(
                message=f"Unknown output stream: {output_stream}, takes stdout, stderr, "
                f"{', '.join(_LEVELS)} or file://PATH"
            )
        return ()


_LEVELS = ("log(info)", "log(warning)", "log(error)")


@register
class StringFormat(Op):
    """A template whose placeholders are replaced by formatted tensors."""

    inputs = "inputs: T"
    outputs = "output: string"
    attrs = {
        "T": list_attr("type"),
        "template": string_attr("%s"),
        "placeholder": string_attr("%s"),
        "summarize": int_attr(3),
    }
    kernels = _ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """A scalar.

        Raises:
            InvalidArgumentError: The numbers of placeholders and tensors differ.
        """
        count = node.attrs["template"].count(node.attrs["placeholder"])
        if count != len(node.shapes):
            raise InvalidArgumentError(
                message=f"num placeholders in template and num inputs must match: {count} vs. "
                f"{len(node.shapes)}"
            )
        return [()]

    def compute(
        self, xp: Any, *inputs: Array, template: str, placeholder: str, summarize: int
    ) -> Array:
        """The text."""
        first, *others = template.split(placeholder)
        text = first
        for value, after in zip(inputs, others, strict=True):
            text += edge_elements(_host(value), summarize) + after
        result = np.empty((), object)
        result[()] = text.encode()
        return result
