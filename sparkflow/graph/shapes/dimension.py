"""One size of a static shape, possibly unknown, with TensorFlow 1's arithmetic."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export


@export("Dimension")
class Dimension:
    """A size: an integer >= 0, or None when unknown. Arithmetic with an unknown size is unknown.

    Args:
        value: An integer, a `Dimension`, or None.

    Raises:
        ValueError: `value` is negative.
        TypeError: `value` is not an integer.
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = _size(value)

    @property
    def value(self) -> int | None:
        """The size, None when unknown."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both could be the same size."""
        size = _size(other)
        return self._value is None or size is None or self._value == size

    def assert_is_compatible_with(self, other: Any) -> None:
        """Passes when both could be the same size.

        Raises:
            ValueError: Both are known and differ.
        """
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """The size both describe.

        Raises:
            ValueError: Both are known and differ.
        """
        self.assert_is_compatible_with(other)
        return Dimension(_size(other) if self._value is None else self._value)

    def _with(self, other: Any, operation: Any) -> Dimension:
        size = _size(other)
        if self._value is None or size is None:
            return Dimension(None)
        return Dimension(operation(self._value, size))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: b // a)

    def __mod__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a % b)

    def __rmod__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: b % a)

    def _compare(self, other: Any, operation: Any) -> Any:
        try:
            size = _size(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or size is None:
            return None
        return bool(operation(self._value, size))

    def __eq__(self, other: object) -> bool:
        # None ("unknown") is falsy; TensorFlow 1 answers so too.
        return self._compare(other, lambda a, b: a == b)  # type: ignore[no-any-return]  # a comparison gives bool or None

    def __ne__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a != b)  # type: ignore[no-any-return]  # a comparison gives bool or None

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a >= b)

    def __hash__(self) -> int:
        return hash(self._value)

    def __int__(self) -> int:
        return self._value  # type: ignore[return-value]  # int() itself refuses None

    def __index__(self) -> int:
        return self._value  # type: ignore[return-value]  # as above

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __repr__(self) -> str:
        return f"Dimension({self._value})"


def _size(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    if isinstance(value, Dimension):
        return value.value
    # Here, for what is neither `int` nor a dimension is rare, and a first step loads little.
    from sparkflow._api.integers import as_integer

    size = as_integer(value)
    if size is None:
        raise TypeError(f"A dimension is an integer or None, got {value!r}")
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    return size


@export("dimension_at_index")
def dimension_at_index(shape: Any, index: int) -> Dimension:
    """A dimension of a `TensorShape`; an unknown one where the rank is unknown."""
    return Dimension(None) if shape.ndims is None else shape.dims[index]


@export("dimension_value")
def dimension_value(dimension: Any) -> int | None:
    """The plain size of a `Dimension`, an integer or None."""
    return _size(dimension)
