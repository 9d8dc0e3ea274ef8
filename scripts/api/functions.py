"""Writes the functions of `sparkflow/_generated/ops` from the rows of `sparkflow/_api/ops`."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence

from api.shapes import Shapes
from api.signatures import (
    CONVERSIONS,
    Parameter,
    attr_in_words,
    dtype_of,
    op_named,
    parameters_of,
)
from sparkflow._api.parameters import COMMON
from sparkflow._api.row import Row
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import Arg

WIDTH = 100
_IMPORTS = {
    "Any": "from typing import Any",
    "Operation": "from sparkflow.graph.operation import Operation",
    "Sequence": "from collections.abc import Sequence",
    "Tensor": "from sparkflow.graph.tensor import Tensor",
    "apply_op": "from sparkflow.graph.scopes import apply_op",
    "as_dtype": "from sparkflow_runtime.dtypes import as_dtype",
    "of_stored_values": "from sparkflow.graph.values.dispatch import of_stored_values",
    "or_ragged": "from sparkflow.graph.values.dispatch import or_ragged",
    "to_shape": "from sparkflow.graph.shapes.tensor_shape import to_shape",
}
"""Names that the functions may use in addition to dtypes, and their modules."""


_DTYPES = {name for name, value in vars(dtypes).items() if isinstance(value, dtypes.DType)}


def module_of(family: str, doc: str, rows: Sequence[Row]) -> str:
    """Returns the text of a module."""
    body = "\n\n".join(function_of(row) for row in rows)
    used = _names_in(body)
    imports = [line for name, line in _IMPORTS.items() if name in used]
    imports += [f"from {dtypes.__name__} import {name}" for name in sorted(used & _DTYPES)]
    standard = [line for line in imports if "sparkflow" not in line]
    own = sorted(line for line in imports if "sparkflow" in line)
    names = sorted(row.called for row in rows)
    listed = "\n".join(f'    "{name}",' for name in names)
    return (
        f'"""{doc.strip()}\n\n'
        f"Made by `scripts/generate_api.py` from `sparkflow/_api/ops/{family}.py`.\n"
        '"""\n\nfrom __future__ import annotations\n\n'
        + "\n".join([*sorted(standard), "", *own])
        + f"\n\n__all__ = [\n{listed}\n]\n\n\n"
        + body
    )


def function_of(row: Row) -> str:
    """Returns the text of one function, formatted except for long lines."""
    op = op_named(row.op)
    parameters = parameters_of(row.parameters)
    inputs = inputs_of(row, op, parameters)
    shown = ", ".join(str(each) for each in parameters)
    result = row.result or ("Tensor" if op.signature.outputs else "Operation")
    lines = [f"def {row.called}({shown}) -> {result}:"]
    lines += textwrap.indent(_doc(row, op, parameters, inputs), "    ").splitlines()
    lines += [f"    result: {result} = {call_of(row, op, parameters)}", "    return result"]
    if row.takes == "stored values":
        lines.insert(0, "@of_stored_values")
    elif row.takes:
        lines.insert(0, "@or_ragged")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def inputs_of(row: Row, op: Op, parameters: Sequence[Parameter]) -> dict[str, Arg]:
    """Returns the parameters that are inputs of the op, in its order.

    Raises:
        ValueError: Their number differs from the op's.
    """
    names = [
        each.name
        for each in parameters
        if each.name not in op.signature.attrs and each.name != "name"
    ]
    if len(names) != len(op.signature.inputs):
        raise ValueError(f"{row.called}: inputs {names} are not those of {op.op_type}")
    return dict(zip(names, op.signature.inputs, strict=True))


def call_of(row: Row, op: Op, parameters: Sequence[Parameter]) -> str:
    """Returns the expression that adds the node."""
    inputs = inputs_of(row, op, parameters)
    arguments = [f'"{row.op}"']
    arguments += [f"list({name})" if arg.is_list else name for name, arg in inputs.items()]
    for each in parameters:
        if each.name in op.signature.attrs and each.name not in inputs:
            kind = op.signature.attrs[each.name].kind
            made = CONVERSIONS.get(kind, "{}").format(each.name)
            arguments.append(f"{each.name}={made}")
    arguments.append(f'name=name or "{row.node}"' if row.node else "name=name")
    return f"apply_op({', '.join(arguments)})"


def _doc(row: Row, op: Op, parameters: Sequence[Parameter], inputs: dict[str, Arg]) -> str:
    shapes = Shapes(op)
    sections = [row.doc]
    texts = _arguments(row, op, parameters, inputs, shapes)
    sections.append("Args:\n" + "\n".join(_item(f"{name}: {text}") for name, text in texts))
    returns = row.returns or _result(op, parameters, inputs, shapes)
    if returns:
        sections.append("Returns:\n" + _item(returns, hanging=False))
    raised = dict(_raised(op, inputs, shapes)) | dict(row.raises)
    if raised:
        listed = "\n".join(_item(f"{kind}: {text}") for kind, text in raised.items())
        sections.append("Raises:\n" + listed)
    text = "\n\n".join(sections)
    return f'"""{text}\n"""'


def _item(text: str, hanging: bool = True) -> str:
    wrapped = textwrap.wrap(
        text,
        WIDTH - 4,
        initial_indent="    ",
        subsequent_indent="        " if hanging else "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapped)


def _arguments(
    row: Row, op: Op, parameters: Sequence[Parameter], inputs: dict[str, Arg], shapes: Shapes
) -> Iterator[tuple[str, str]]:
    first_of: dict[str | None, str] = {}
    place = [*inputs]
    for each in parameters:
        name, own = each.name, row.arguments.get(each.name, "")
        if name in inputs:
            arg = inputs[name]
            kind = dtype_of(op, arg)
            if arg.type_attr is not None and first_of.setdefault(arg.type_attr, name) != name:
                kind = f"the dtype of `{first_of[arg.type_attr]}`"
            if own:
                yield name, own if _DTYPE.search(own) else f"{own} {_sentence(kind)}"
                continue
            subject = shapes.of_input(place.index(name))
            if arg.is_list:
                subject = "A list of tensors"
            elif arg.is_ref:
                subject = "A variable"
            yield name, f"{subject} of {kind}."
        elif name == "name":
            default = f" (`{row.node}` when None)" if row.node else ""
            yield name, own or f"Name of the node{default}."
        else:
            found = attr_in_words(op.signature.attrs[name])
            own = own or ("" if found else COMMON.get(name, ""))
            if text := own if "`" in own else " ".join(filter(None, [own, found])):
                yield name, text


_DTYPE = re.compile(r"float|int|bool|[Ss]tring|[Nn]umber|dtype|[Bb]ytes|type|[Tt]ext|JSON")
"""Matches texts about arguments that state the dtype."""


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text.startswith(("any", "the")) else f"{text}."


def _result(op: Op, parameters: Sequence[Parameter], inputs: dict[str, Arg], shapes: Shapes) -> str:
    outputs = op.signature.outputs
    if not outputs:
        return "The operation."
    if len(outputs) > 1:
        return f"A tuple of {', '.join(f'`{out.name}`' for out in outputs)}."
    (out,) = outputs
    if out.is_list:
        return "A list of tensors."
    same = [name for name, arg in inputs.items() if out.type_attr in (arg.type_attr,)]
    shape = ""
    if shapes.kept is not None and shapes.of_input(shapes.kept) != "Scalar":
        shape = f"the shape of `{[*inputs][shapes.kept]}`"
    elif shapes.broadcasts:
        shape = "the shape that the inputs broadcast to"
    if out.dtype is not None:
        article = "An" if out.dtype.name[0] in "aeiou" else "A"
        return f"{article} {out.dtype.name} tensor{f' of {shape}' if shape else ''}."
    kind = f"the dtype of `{same[0]}`" if same else ""
    if not same and any(each.name == out.type_attr for each in parameters):
        kind = f"dtype `{out.type_attr}`"
    if shape and kind == shape.replace("shape", "dtype"):
        return f"A tensor {shape.replace('the shape', 'with the shape and dtype')}."
    both = " and ".join(filter(None, [shape, kind]))
    return f"A tensor of {both}." if both else ""


def _raised(op: Op, inputs: dict[str, Arg], shapes: Shapes) -> Iterator[tuple[str, str]]:
    attrs = op.signature.attrs
    keys = [arg.type_attr for arg in inputs.values() if arg.type_attr is not None]
    if len(set(keys)) < len(keys):
        yield "TypeError", "A dtype is not one of those above, or the dtypes differ."
    elif any(arg.dtype is not None for arg in inputs.values()) or any(
        attrs[key].allowed is not None for key in keys
    ):
        yield "TypeError", "The dtype is not one of those above."
    if shapes.broadcasts:
        yield "ValueError", "The shapes do not broadcast."
    elif shapes.refuses:
        yield "ValueError", "The shapes do not fit."


def _names_in(text: str) -> set[str]:
    return {each.id for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name)}
