"""`EagerTensor`: a tensor that holds its value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.resources.variable import Variable

if TYPE_CHECKING:
    from sparkflow.eager.context import EagerGraph


class EagerTensor(Tensor):
    """The tensor that functions return in eager execution.

    Attributes:
        held: The array; the runtime's variable for a reference; whatever a handle stands for.
    """

    __slots__ = ("held",)

    def __init__(self, op: Operation, value_index: int, dtype: DType, held: Any) -> None:
        shape = getattr(held, "shape", None) if not isinstance(held, Variable) else None
        if shape is None and dtype.base in (dtypes.variant, dtypes.resource):
            shape = ()
        super().__init__(op, value_index, dtype, shape)
        self.held = held

    def numpy(self) -> Any:
        """The value as a numpy array, or a numpy scalar. A copy, as fetched values are."""
        value = self.held.read() if isinstance(self.held, Variable) else self.held
        array = np.array(_on_host(value))
        if array.dtype == object:
            return array if array.ndim else array.item()
        return array if array.ndim else array[()]

    @property
    def name(self) -> str:
        """Tensors have no names in eager execution.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError("Tensor.name is meaningless when eager execution is enabled.")

    @property
    def device(self) -> str:
        """The full name of its device."""
        graph: EagerGraph = self.op.graph  # type: ignore[assignment]  # eager operations have one
        return graph.device_name

    def cpu(self) -> EagerTensor:
        """The tensor in host memory."""
        return self

    def gpu(self, gpu_index: int = 0) -> Tensor:
        """The tensor in the memory of a GPU.

        Raises:
            RuntimeError: Eager execution runs on the CPU.
        """
        raise RuntimeError(f"No GPU {gpu_index} is used by eager execution; device: {self.device}")

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Not for eager execution.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're "
            "looking for?"
        )

    def __bool__(self) -> bool:  # type: ignore[override]  # a graph's tensors have no value
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        value = self.numpy()
        if not self.dtype.is_integer or np.ndim(value):
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(value)

    def __len__(self) -> int:  # type: ignore[override]  # a graph's tensors have no value
        if not self._shape:
            raise TypeError("Scalar tensor has no `len()`")
        return int(self._shape[0] or 0)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # a graph's have no value
        if not self._shape:
            raise TypeError("Cannot iterate over a scalar tensor.")
        for index in range(len(self)):
            yield self[index]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.numpy(), dtype)

    def __format__(self, format_spec: str) -> str:
        return format(self.numpy(), format_spec)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __copy__(self) -> EagerTensor:
        return self

    def __deepcopy__(self, memo: Any) -> EagerTensor:
        return self

    def _text(self) -> str:
        if self.dtype.base in (dtypes.variant, dtypes.resource):
            return "<unprintable>"
        return str(self.numpy())

    def __str__(self) -> str:
        text = self._text()
        text = f"\n{text}" if "\n" in text else text
        return f"tf.Tensor({text}, shape={self.shape}, dtype={self.dtype.base.name})"

    def __repr__(self) -> str:
        value = "<unprintable>"
        if self.dtype.base not in (dtypes.variant, dtypes.resource):
            value = repr(self.numpy()) if self._shape else str(self.numpy())
            value = f"\n{value}" if "\n" in value else value
        return (
            f"<tf.Tensor: id={self.op.name}, shape={self.shape}, dtype={self.dtype.base.name}, "
            f"numpy={value}>"
        )


def _on_host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value  # cupy's way to copy to the host
