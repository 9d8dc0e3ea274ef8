"""`tf.nest`: nested lists, tuples, named tuples and dictionaries, leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tree

__all__ = [
    "assert_same_structure",
    "flatten",
    "is_nested",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
]


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves in order; dictionaries in the order of their sorted keys.

    Args:
        structure: Nested lists, tuples and dictionaries, or one leaf.
        expand_composites: Take the tensors of sparse tensors for leaves.
    """
    leaves = tree.flatten(structure)
    if not expand_composites:
        return list(leaves)
    return [part for leaf in leaves for part in _parts(leaf)]


def _parts(leaf: Any) -> list[Any]:
    if all(hasattr(leaf, name) for name in ("indices", "values", "dense_shape")):
        return [leaf.indices, leaf.values, leaf.dense_shape]
    return [leaf]


def is_nested(structure: Any) -> bool:
    """Whether it is a list, tuple, named tuple or dictionary."""
    return bool(tree.is_nested(structure))


is_sequence = is_nested


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Passes where both are nested alike.

    Raises:
        ValueError: They are not.
        TypeError: They are, in sequences of other types, and `check_types` is true.
    """
    del expand_composites  # a sparse tensor is a leaf on both sides, or on neither
    tree.assert_same_structure(nest1, nest2, check_types=check_types)


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """`func` of the leaves that stand in the same place, nested as they are.

    Args:
        func: Takes as many leaves as there are structures.
        structure: The structures.
        kwargs: `check_types`: whether sequences must be of the same type; `expand_composites`.

    Raises:
        TypeError: `func` is no function, or the types differ.
        ValueError: There is no structure, or they differ.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    check = kwargs.pop("check_types", True)
    kwargs.pop("expand_composites", None)
    if kwargs:
        raise ValueError(
            "Only valid keyword arguments are `check_types` and `expand_composites`, not: "
            f"`{sorted(kwargs)}`"
        )
    if not structure:
        raise ValueError("Must provide at least one structure")
    return tree.map_structure(func, *structure, check_types=check)


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """The leaves, nested as `structure` is.

    Raises:
        TypeError: `flat_sequence` is no sequence.
        ValueError: There are more or fewer leaves than there are places.
    """
    del expand_composites  # leaves are packed as they come
    if not isinstance(flat_sequence, list | tuple) and not is_nested(flat_sequence):
        raise TypeError(f"flat_sequence must be a sequence, not {type(flat_sequence).__name__}")
    places, given = len(tree.flatten(structure)), list(flat_sequence)
    if not is_nested(structure):
        if len(given) != 1:
            raise ValueError(f"Structure is a scalar but len(flat_sequence) == {len(given)} > 1")
        return given[0]
    if places != len(given):
        raise ValueError(
            "Could not pack sequence. Structure had "
            f"{places} elements, but flat_sequence had {len(given)} elements."
        )
    return tree.unflatten_as(structure, given)
