"""Converts a list's table of element addresses before and after the iterations of a loop."""

from __future__ import annotations

from collections.abc import Callable

from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.once import once


@once
def list_begins() -> Callable[..., bool]:
    """Returns a function that fills a list's block, see `ListField`, from four arrays.

    The arrays are the table of element addresses, zeros, memory for elements, and an array whose
    rows are the elements. If that last array is the zeros, no element is set; if it is the table,
    the table already holds the addresses.
    """
    code = Code()
    rows, zeros, memory, elements, control = code.arrays(5)

    def field(which: ListField) -> str:
        return code.at("i64", control, which.value)

    for which, array in ((ListField.ROWS, rows), (ListField.ZEROS, zeros)):
        code.store("ptr", array, field(which))
    code.store("ptr", memory, field(ListField.MEMORY))
    length = code.load("i64", field(ListField.FIRST_LENGTH))
    code.store("i64", length, field(ListField.LENGTH))
    row_bytes, capacity = (
        code.load("i64", field(which)) for which in (ListField.ROW_BYTES, ListField.CAPACITY)
    )
    begin, table, nothing = (
        code.let(f"ptrtoint ptr {each} to i64") for each in (elements, rows, zeros)
    )
    with code.when(code.compare("ne", begin, table)):
        filled = code.select(code.compare("eq", begin, nothing), 0, length)
        with code.loop(0, filled) as i:
            address = code.add(begin, code.multiply(i, row_bytes))
            code.store("i64", address, code.at("i64", rows, i))
        rest = code.multiply(code.subtract(capacity, filled), 8)
        code.clear(code.at("i64", rows, filled), rest)
    return native.body(code.module()).bind([], [entry.NOT_COUNTED] * 5, 0)


@once
def list_ends() -> Callable[..., bool]:
    """Returns a function of an int64, which it fills, and the block of a list.

    It counts the elements that are stored at their own positions in the list's memory.
    """
    code = Code()
    counted, control = code.arrays(2)
    length, rows, memory, row_bytes = (
        code.load("i64", code.at("i64", control, which.value))
        for which in (ListField.LENGTH, ListField.ROWS, ListField.MEMORY, ListField.ROW_BYTES)
    )
    table = code.let(f"inttoptr i64 {rows} to ptr")
    total = code.variable("i64", 0)
    with code.loop(0, length) as i:
        own = code.add(memory, code.multiply(i, row_bytes))
        is_own = code.compare("eq", code.load("i64", code.at("i64", table, i)), own)
        code.set(total, code.add(code.get(total), code.let(f"zext i1 {is_own} to i64")))
    code.store("i64", code.get(total), counted)
    return native.body(code.module()).bind([], [entry.NOT_COUNTED] * 2, 0)
