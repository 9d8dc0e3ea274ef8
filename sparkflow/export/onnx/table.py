"""What an entry of the table is: a function that says in ONNX what one node says in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.export.onnx.kernels import computed_in
from sparkflow_runtime.errors import UnimplementedError

OPSET: Final = 18
"""The version of ONNX's operators that entries are written for."""

Conversion = Callable[["Node"], Sequence[str]]
TABLE: dict[str, Conversion] = {}
"""The entries, by TensorFlow's op type."""

_REASONS: Final = {
    "control flow": (
        "If", "StatelessIf", "While", "StatelessWhile", "Switch", "Merge", "Enter", "Exit",
        "NextIteration", "LoopCond", "Case", "PartitionedCall", "StatefulPartitionedCall",
    ),
    "lookup tables": (
        "HashTable", "HashTableV2", "LookupTableFind", "LookupTableFindV2", "InitializeTableV2",
        "MutableHashTableV2", "InitializeTableFromTextFileV2",
    ),
    "functions of texts": (
        "StringJoin", "StringSplit", "StringSplitV2", "StringToHashBucketFast", "StringToNumber",
        "StringToHashBucketStrong", "RegexReplace", "DecodeJpeg", "DecodePng", "ParseExample",
        "AsString", "Substr", "StringLower", "StringUpper", "StringStrip",
    ),
    "state": ("VariableV2", "Variable", "VarHandleOp", "Assign", "AssignAdd", "ScatterUpdate"),
    "random numbers": (
        "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt",
        "Multinomial", "RandomShuffle",
    ),
}  # fmt: skip


def converts(*types: str) -> Callable[[Conversion], Conversion]:
    """Enters a function in the table for some op types."""

    def enter(conversion: Conversion) -> Conversion:
        for each in types:
            assert each not in TABLE, each
            TABLE[each] = conversion
        return conversion

    return enter


class Node:
    """One node of the graph that is converted, as the functions of the table see it.

    Args:
        op: The operation.
        inputs: What its inputs are called in ONNX.
        target: Takes the nodes and constants that are made.
    """

    def __init__(self, op: Any, inputs: Sequence[str], target: Target) -> None:
        self._op = op
        self._target = target
        self.inputs = list(inputs)

    @property
    def type(self) -> str:
        """The op type."""
        return str(self._op.type)

    def attr(self, name: str) -> Any:
        """An attribute; bytes as text."""
        value = self._op.attr(name)
        return value.decode() if isinstance(value, bytes) else value

    def dtype(self, index: int = 0) -> np.dtype[Any]:
        """The dtype of an input."""
        found: np.dtype[Any] = np.dtype(self._op.inputs[index].dtype.base_dtype.as_numpy_dtype)
        return found

    def output_dtype(self, index: int = 0) -> np.dtype[Any]:
        """The dtype of an output."""
        found: np.dtype[Any] = np.dtype(self._op.outputs[index].dtype.base_dtype.as_numpy_dtype)
        return found

    def shape(self, index: int = 0) -> list[int | None]:
        """The static shape of an input.

        Raises:
            UnimplementedError: Not even the rank is known.
        """
        return self._known(self._op.inputs[index].shape, f"input {index}")

    def output_shape(self, index: int = 0) -> list[int | None]:
        """The static shape of an output; as `shape`."""
        return self._known(self._op.outputs[index].shape, f"output {index}")

    @property
    def num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self._op.outputs)

    def value(self, index: int) -> npt.NDArray[Any]:
        """The value of an input that must be a constant.

        Raises:
            UnimplementedError: It depends on what is fed.
        """
        found = self.constant_or_none(index)
        if found is None:
            name = self._op.inputs[index].name
            raise self.refusal(f"its input {index} ({name}) must be a constant")
        return found

    def constant_or_none(self, index: int) -> npt.NDArray[Any] | None:
        """The value of an input if the graph determines it, else None."""
        return self._target.constant_value(self._op.inputs[index])

    def refusal(self, reason: str) -> UnimplementedError:
        """The error that this node cannot be converted."""
        return refusal(self._op, reason)

    def emit(self, op_type: str, inputs: Iterable[str] | None = None, **attributes: Any) -> str:
        """Adds an ONNX node with one output and returns the output's name."""
        return self.emit_several(op_type, 1, inputs, **attributes)[0]

    def emit_several(
        self, op_type: str, count: int, inputs: Iterable[str] | None = None, **attributes: Any
    ) -> list[str]:
        """Adds an ONNX node and returns the names of its outputs.

        Raises:
            UnimplementedError: Runtimes cannot compute it in the dtype of its inputs, nor exactly
                in a wider one.
        """
        given = self.inputs if inputs is None else list(inputs)
        if op_type == "Cast":
            return self._target.add(op_type, given, count, self._op.name, attributes)
        takes, gives = self._target.types(op_type, len(given), count)
        main = takes[1 if op_type == "Where" else 0]  # what it is about, not a condition
        dtype = self._target.dtype(given[takes.index(main)])
        computed = computed_in(op_type, dtype)
        if computed is None:
            raise self.refusal(
                f"onnxruntime has no {op_type} of {dtype.name}; compute it in another dtype "
                "(tf.cast)"
            )
        if computed != dtype:
            given = [
                self.cast(name, computed) if name and each == main else name
                for name, each in zip(given, takes, strict=True)
            ]
        found = self._target.add(op_type, given, count, self._op.name, attributes)
        if computed == dtype:
            return found
        return [
            self.cast(name, dtype) if each == main else name
            for name, each in zip(found, gives, strict=True)
        ]

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Adds a constant and returns its name."""
        return self._target.add_constant(np.asarray(value, dtype), self._op.name)

    def integers(self, *values: int) -> str:
        """Adds a vector of int64, as ONNX wants axes and shapes."""
        return self.constant(values, np.int64)

    def cast(self, name: str, dtype: Any) -> str:
        """A tensor as another dtype."""
        return self.emit("Cast", [name], to=self._target.type_number(np.dtype(dtype)))

    def as_int64(self, index: int) -> str:
        """An input as int64: ONNX wants shapes and indices so."""
        if self.dtype(index) == np.int64:
            return self.inputs[index]
        return self.cast(self.inputs[index], np.int64)

    def as_index(self, index: int) -> str:
        """An input of positions, of which none is taken from the end.

        ONNX counts negative positions from there; TensorFlow refuses them, as a runtime refuses
        what is put in their place.
        """
        name, values = self.as_int64(index), self.constant_or_none(index)
        if self.dtype(index).kind == "u" or (values is not None and (values >= 0).all()):
            return name
        is_negative = self.emit("Less", [name, self.constant(0, np.int64)])
        beyond = self.constant(np.iinfo(np.int64).max, np.int64)
        return self.emit("Where", [is_negative, beyond, name])

    def _known(self, shape: Any, which: str) -> list[int | None]:
        if shape.ndims is None:
            raise self.refusal(f"the rank of its {which} is not known")
        found: list[int | None] = shape.as_list()
        return found


class Target:
    """The graph that is made: names nodes and constants. `convert` has the only one."""

    def add(
        self, op_type: str, inputs: list[str], count: int, name: str, attributes: dict[str, Any]
    ) -> list[str]:
        """Adds a node; the names of its outputs."""
        raise NotImplementedError

    def types(self, op_type: str, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
        """What ONNX calls the types of a node's inputs and outputs, `T` or `tensor(int64)`."""
        raise NotImplementedError

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of an input, a constant or what a node gives."""
        raise NotImplementedError

    def add_constant(self, value: npt.NDArray[Any], name: str) -> str:
        """Adds a constant; its name."""
        raise NotImplementedError

    def type_number(self, dtype: np.dtype[Any]) -> int:
        """ONNX's number of a dtype."""
        raise NotImplementedError

    def constant_value(self, tensor: Any) -> npt.NDArray[Any] | None:
        """The value of a tensor that the graph tells."""
        raise NotImplementedError


def refusal(op: Any, reason: str) -> UnimplementedError:
    """The error that a node cannot be converted."""
    return UnimplementedError(
        message=f"The node {op.name!r} (op {op.type}) cannot be converted to ONNX: {reason}"
    )


def unknown(op: Any) -> UnimplementedError:
    """The error that the table has no entry for a node's op."""
    for what, types in _REASONS.items():
        if op.type in types:
            return refusal(
                op,
                f"{what} cannot be converted. Make predictions of tensors that do not depend on "
                "it, or move it out of the model",
            )
    return refusal(op, f"there is no conversion of this op; there are {len(TABLE)} of other ops")
