"""Lines of comma-separated values as columns, by RFC 4180 as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings.delimited import Decoder, Format
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, list_attr, string_attr
from sparkflow_runtime.ops.strings.string_arrays import StringOp, flat_strings, text_of
from sparkflow_runtime.ops.strings.string_number import parse_number
from sparkflow_runtime.shapes import Shape

_QUOTE = ord('"')
_LINE_ENDS = b"\r\n"


def _refuse(text: str) -> InvalidArgumentError:
    return InvalidArgumentError(message=text)


def split_line(line: bytes, delimiter: int, quotes: bool) -> list[bytes]:
    """The fields of one line.

    Raises:
        InvalidArgumentError: A misplaced quote or line end, or an unclosed quote.
    """
    fields: list[bytes] = []
    at, size = 0, len(line)
    while True:
        if quotes and at < size and line[at] == _QUOTE:
            field, at = _quoted(line, at + 1)
            if at < size and line[at] != delimiter:
                raise _refuse("Quoted field has to end with a quote followed by delim or end")
        else:
            start = at
            while at < size and line[at] != delimiter:
                if line[at] in _LINE_ENDS or (quotes and line[at] == _QUOTE):
                    raise _refuse("Unquoted fields cannot have quotes/CRLFs inside")
                at += 1
            field = line[start:at]
        fields.append(field)
        if at >= size:
            return fields
        at += 1


def _quoted(line: bytes, at: int) -> tuple[bytes, int]:
    """Returns a field from after its opening quote, and the position after the closing one."""
    parts = []
    while True:
        end = line.find(b'"', at)
        if end < 0:
            raise _refuse("Quoted field has to end with a quote followed by delim or end")
        parts.append(line[at:end])
        if line[end + 1 : end + 2] != b'"':
            return b'"'.join(parts), end + 1
        at = end + 2


@register
class DecodeCSV(StringOp):
    """One tensor per column, with the shape of the lines; empty fields get the column's default.

    An empty line has no field; with `_blank_lines`, which is ours, it has an empty one.
    """

    inputs = "records: string, record_defaults: OUT_TYPE"
    outputs = "output: OUT_TYPE"
    attrs = {
        "OUT_TYPE": Attr(
            "list(type)",
            allowed=frozenset(
                {dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string}
            ),
            minimum=1,
        ),
        "field_delim": string_attr(","),
        "use_quote_delim": bool_attr(True),
        "na_value": string_attr(""),
        "select_cols": list_attr("int", []),
        "_blank_lines": bool_attr(False),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the lines, for every column.

        Raises:
            InvalidArgumentError: A default is neither a scalar nor a vector of at most one.
        """
        for index, shape in enumerate(node.shapes[1:]):
            if shape is not None and (len(shape) > 1 or shape not in ((), (0,), (1,), (None,))):
                raise _refuse(
                    f"Shape of a default must be a length-0 or length-1 vector, or a scalar, but "
                    f"that of column {index} is {shape}"
                )
        return [node.shapes[0]] * len(node.attrs["OUT_TYPE"])

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel: fails for lines with another number of fields, or of another type.

        Raises:
            InvalidArgumentError: The delimiter is not one byte, or columns are not selected in
                order.
        """
        types: Sequence[DType] = node.attrs["OUT_TYPE"]
        text, chosen = node.attrs["field_delim"], list(node.attrs["select_cols"])
        if len(text.encode()) != 1:
            raise _refuse(f"field_delim should be only 1 char, got {text!r}")
        if chosen and (len(chosen) != len(types) or sorted(set(chosen)) != chosen):
            raise _refuse(
                f"select_cols should be {len(types)} strictly increasing indices, got {chosen}"
            )
        quotes, missing = node.attrs["use_quote_delim"], node.attrs["na_value"].encode()
        kinds = tuple(np.dtype(each.as_numpy_dtype) for each in types)
        fields = _column_of_field(chosen, len(types))
        blanks = node.attrs.get("_blank_lines", False)
        decoder = Decoder(Format(kinds, fields, not chosen, ord(text), quotes, missing))

        def run(records: Array, *defaults: Array) -> tuple[Array, ...]:
            lines, shape = flat_strings(records), np.shape(records)
            if len(fields) == 1 and not blanks and not all(lines):
                raise _refuse(f"Expect 1 fields but have 0 in record {list(lines).index(b'')}")
            columns = [np.empty(shape, kind) for kind in kinds]

            def by_python(row: int) -> None:
                found = _chosen(split_line(lines[row], ord(text), quotes), chosen, len(types), row)
                for index, (field, dtype) in enumerate(zip(found, types, strict=True)):
                    column = columns[index].reshape(-1)
                    if field not in (b"", missing):
                        with np.errstate(over="ignore"):
                            column[row] = _value(field, dtype, index, row)
                    elif not defaults[index].size:
                        raise _refuse(f"Field {index} is required but missing in record {row}!")
                    else:
                        column[row : row + 1] = defaults[index]

            decoder.decode(lines, columns, defaults, by_python)
            return tuple(columns)

        return run


def _chosen(fields: list[bytes], chosen: Sequence[int], columns: int, row: int) -> list[bytes]:
    """Returns the fields that become columns.

    Raises:
        InvalidArgumentError: There are too few, or too many if none are chosen.
    """
    if chosen:
        if chosen[-1] >= len(fields):
            raise _refuse(
                f"Expect at least {chosen[-1] + 1} fields but have {len(fields)} in record {row}"
            )
        return [fields[index] for index in chosen]
    if len(fields) != columns:
        raise _refuse(f"Expect {columns} fields but have {len(fields)} in record {row}")
    return fields


def _column_of_field(chosen: Sequence[int], columns: int) -> tuple[int, ...]:
    if not chosen:
        return tuple(range(columns))
    found = [-1] * (chosen[-1] + 1)
    for column, field in enumerate(chosen):
        found[field] = column
    return tuple(found)


def _value(field: bytes, dtype: DType, index: int, row: int) -> Any:
    if dtype is dtypes.string:
        return field
    number = parse_number(field, dtype)
    if number is None:
        raise _refuse(
            f"Field {index} in record {row} is not a valid {dtype.name}: {text_of(field)}"
        )
    return number
