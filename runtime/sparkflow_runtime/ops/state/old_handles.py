"""Readers and tables as graphs of TensorFlow's first releases have them.

Their handle was a reference to a string; everything else is as in the ops `...V2`.
"""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.ops.files import reader
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.registry import imported_ops, register
from sparkflow_runtime.ops.state import lookup_table

_HANDLES = ("table_handle", "reader_handle", "queue_handle")
_LATER: dict[str, dict[str, Any]] = {
    "MutableDenseHashTableV2": {"inputs": "empty_key: key_dtype"},
    "FixedLengthRecordReaderV2": {
        "attrs": {
            name: attr
            for name, attr in reader.FixedLengthRecordReaderV2.attrs.items()
            if name != "encoding"
        }
    },
}
"""What the first releases did not have yet."""


def _by_reference(op: type[Op]) -> None:
    def older(text: str) -> str:
        for handle in _HANDLES:
            text = text.replace(f"{handle}: resource", f"{handle}: Ref(string)")
        return text

    changed = {
        "type": op.__name__.removesuffix("V2"),
        "inputs": older(op.inputs),
        "outputs": older(op.outputs),
        "__doc__": op.__doc__,
        "__module__": __name__,
        **_LATER.get(op.__name__, {}),
    }
    register(type(f"{op.__name__}WithReference", (op,), changed))


for _op in imported_ops():
    _class = type(_op)
    if _class.__module__ in (lookup_table.__name__, reader.__name__) and (
        # TensorFlow never had the others in this form.
        _op.op_type.endswith("V2") and not _op.op_type.startswith("LookupTableRemove")
    ):
        _by_reference(_class)
