"""Nested structures of elements: tuples, named tuples and dictionaries.

Unlike elsewhere in TensorFlow, a list is not a structure here but a value that becomes a tensor.
Dictionaries are traversed by sorted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


def is_nested(value: Any) -> bool:
    """Whether it is a structure rather than a leaf."""
    return isinstance(value, tuple | Mapping) and not hasattr(value, "_is_leaf_of_data")


def children(structure: Any) -> Iterator[tuple[Any, Any]]:
    """Returns key and value of each part of a structure, in order."""
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield key, structure[key]
    else:
        yield from enumerate(structure)


def flatten(structure: Any, is_leaf: Callable[[Any], bool] = lambda _: False) -> list[Any]:
    """Returns the leaves in order; a value that is not a structure is its own leaf."""
    if not is_nested(structure) or is_leaf(structure):
        return [structure]
    return [leaf for _, part in children(structure) for leaf in flatten(part, is_leaf)]


def pack_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """Returns `leaves` packed into the structure of `structure`."""
    rest = iter(leaves)
    packed = _packed(structure, rest)
    assert next(rest, None) is None, "as many leaves as the structure has"
    return packed


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    parts = {key: _packed(part, leaves) for key, part in children(structure)}
    if isinstance(structure, Mapping):
        made = {key: parts[key] for key in structure}
        return made if type(structure) is dict else type(structure)(made)  # type: ignore[call-arg]
    if hasattr(structure, "_fields"):
        return type(structure)(*parts.values())
    return tuple(parts.values())


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Returns the structure with `function` applied to each leaf."""
    return pack_as(structure, [function(leaf) for leaf in flatten(structure)])


def flatten_up_to(shallow: Any, value: Any) -> list[Any]:
    """Returns the parts of `value` at the positions of the leaves of `shallow`.

    Raises:
        TypeError: A structure has another kind.
        ValueError: A structure has other keys or another length.
    """
    if not is_nested(shallow):
        return [value]
    if isinstance(shallow, Mapping) != isinstance(value, Mapping) or not isinstance(
        value, Mapping | tuple | list
    ):
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(value)}, while shallow structure has type {type(shallow)}."
        )
    if len(shallow) != len(value):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(value)}, while shallow structure has length {len(shallow)}."
        )
    if isinstance(shallow, Mapping) and set(shallow) != set(value):
        raise ValueError(
            "The two structures don't have the same keys. Input structure has keys "
            f"{list(value)}, while shallow structure has keys {list(shallow)}."
        )
    return [leaf for key, part in children(shallow) for leaf in flatten_up_to(part, value[key])]


def require_same(one: Any, other: Any) -> None:
    """Checks that two values have the same structure.

    Raises:
        TypeError: Their kinds differ.
        ValueError: Their lengths or keys differ.
    """
    if is_nested(one) != is_nested(other):
        raise ValueError(
            f"The two structures don't have the same nested structure. First structure: {one!r}. "
            f"Second structure: {other!r}."
        )
    if is_nested(one):
        flatten_up_to(one, other)
        for key, part in children(one):
            require_same(part, other[key])
