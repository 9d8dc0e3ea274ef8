"""Arrays of Python's texts as string tensors, in machine code."""

from __future__ import annotations

from collections.abc import Callable

from sparkflow_runtime.codegen.strings.objects import Array, Elements, mapped


def encoded(values: Array, by_python: Callable[[object], bytes]) -> Array:
    """Returns the elements of an array as bytes: those of str in UTF-8.

    Args:
        values: [n] objects, contiguous.
        by_python: Encodes an element that is not exactly str or bytes, or raises.
    """
    return mapped(encoded_text, (), values, by_python)


def encoded_text() -> str:
    """Returns the kernel: of objects and bytes."""
    elements = Elements(2)
    code = elements.code
    values, found = elements.arrays
    result = code.variable("ptr")
    with elements.each() as (number, leave_unless):
        value = elements.object_at(values, number, leave_unless)
        is_text = elements.is_text(value)
        code.set(result, value, "ptr")
        with code.unless(is_text):
            leave_unless(elements.is_bytes(value))
            elements.keep(value)
        with code.when(is_text):
            code.set(result, elements.encode(value, leave_unless), "ptr")
        elements.put(code.get(result, "ptr"), found, number)
    return elements.module()
