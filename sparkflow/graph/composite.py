"""`Composite`: a value of several tensors that sessions fetch and feed as one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.graph.operators import Operators
from sparkflow.graph.tensor import Tensor


class Composite(Operators):
    """Base of composite values; a subclass defines their components."""

    __slots__ = ()

    @abstractmethod
    def _components(self) -> list[Tensor]:
        """The tensors."""

    @abstractmethod
    def _value_of(self, arrays: Sequence[Any]) -> Any:
        """What fetching it gives, from the values of the tensors."""

    @abstractmethod
    def _arrays_of(self, value: Any) -> list[Any]:
        """The values of the tensors, from what is fed."""

    @abstractmethod
    def _elementwise(
        self, op_type: str, values: Sequence[Any], attrs: Mapping[str, Any], name: str | None
    ) -> Any:
        """What a node of `op_type` would give, where one of `values` is of this class."""

    @abstractmethod
    def _counterpart(self, name: str) -> Callable[..., Any]:
        """What stands for the function `name` where one of its arguments is of this class."""

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        raise TypeError(
            f"Failed to convert object of type {type(self)} to Tensor. Contents: {self}. Consider "
            "casting elements to a supported type."
        )
