"""Addresses of arrays, written into tables by machine code: asking numpy takes a microsecond each.

Arrays are not looked at but for their addresses: that they lie in C order is the promise of whoever
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.once import once


def bind_addresses(targets: Sequence[Sequence[tuple[int, int]]]) -> Callable[..., bool]:
    """A function of arrays and a table of int64, into which it writes their addresses.

    Like `native.Body.bind`'s, it does nothing but return False where something is no numpy array.

    Args:
        targets: Per array the places in the table, each with what is added to the address.
    """
    written = [(n, *each) for n, places in enumerate(targets) for each in places]
    sizes = [len(written), len(targets), *(number for each in written for number in each)]
    return _addresses().bind(sizes, [entry.NOT_COUNTED] * (len(targets) + 1), 0)


@once
def list_begins() -> Callable[..., bool]:
    """A function of four arrays and the block of a list, see `ListField`, that points to them.

    They are the table of the elements' addresses, zeros, memory for elements, and an array of
    elements. Is that last one another than the memory, then its rows are the elements.
    """
    code = Code()
    rows, zeros, memory, elements, control = code.arrays(5)

    def field(which: ListField) -> str:
        return code.at("i64", control, which.value)

    for which, array in ((ListField.ROWS, rows), (ListField.ZEROS, zeros)):
        code.store("ptr", array, field(which))
    code.store("ptr", memory, field(ListField.MEMORY))
    start, end = (code.let(f"ptrtoint ptr {each} to i64") for each in (elements, memory))
    with code.when(code.compare("ne", start, end)):
        row_bytes = code.load("i64", field(ListField.ROW_BYTES))
        with code.loop(0, code.load("i64", field(ListField.LENGTH))) as i:
            address = code.add(start, code.multiply(i, row_bytes))
            code.store("i64", address, code.at("i64", rows, i))
    return native.body(code.module()).bind([], [entry.NOT_COUNTED] * 5, 0)


@once
def list_ends() -> Callable[..., bool]:
    """A function of an int64, of the block of a list, and of nothing else.

    It counts the elements that lie in the list's memory at their own places, one after the other.
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


@once
def _addresses() -> native.Body:
    code = Code()
    count, arrays = code.sizes(2)
    table = code.load("ptr", code.at("ptr", "%arrays", arrays))
    with code.loop(0, count) as number:
        here = code.at("i64", "%sizes", code.add(code.multiply(number, 3), 2))
        array, place, more = (code.load("i64", code.at("i64", here, i)) for i in range(3))
        address = code.load("i64", code.at("i64", "%arrays", array))
        code.store("i64", code.add(address, more), code.at("i64", table, place))
    return native.body(code.module())
