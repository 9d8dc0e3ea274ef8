"""Arrays of Python's bytes in machine code: elements are read in place, and new ones are created.

Kernels go from element to element, and stop at one that they leave to Python: an object that is not
exactly bytes, or a case that they do not know. They hold the GIL: without it, another thread could
replace an element of an array, which frees it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.builtin import address_in_python
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.machine.host import DATA
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import once

Array = np.ndarray[Any, Any]
Leave = Callable[[str], None]
"""Leaves an element to Python unless a condition holds."""
_TYPE, _SIZE, _DATA = 8, 16, 32
"""Offsets in bytes of an object's type and of the fields of CPython's `PyBytesObject`."""
_FUNCTIONS: Final = (
    "PyBytes_FromStringAndSize",
    "PyUnicode_AsUTF8String",
    "Py_IncRef",
    "Py_DecRef",
    "PyErr_Clear",
    "PyOS_string_to_double",
)
SPACES: Final = b" \t\n\v\f\r"
"""ASCII's white space."""
_AHEAD: Final = 8
"""Elements that are fetched into the cache before they are read."""


def for_each(
    write: Callable[..., str],
    arguments: tuple[Any, ...],
    arrays: Sequence[Array],
    by_python: Callable[[int], None],
    parameters: Sequence[int] = (),
) -> None:
    """Runs a kernel for all elements of the first array.

    Args:
        write: Returns the kernel's text, see `Elements`; a function of a module in `codegen`.
        arguments: Its arguments.
        arrays: What the kernel gets after its state, contiguous.
        by_python: Does the work for one element, given its number; without machine code, for all.
        parameters: Numbers for the kernel.
    """
    count = arrays[0].size
    if not count:
        return
    if not (native.available() and _bytes_are_as_known()):
        for number in range(count):
            by_python(number)
        return
    kernel = _bound(write, arguments, len(arrays))
    state = np.array([0, count, *parameters], np.int64)
    while True:
        kernel(state, *arrays)
        number = int(state[0])
        if number == count:
            return
        by_python(number)
        state[0] = number + 1


def mapped(
    write: Callable[..., str],
    arguments: tuple[Any, ...],
    strings: Array,
    by_python: Callable[[Any], Any],
    *tables: Array,
    dtype: Any = np.object_,
) -> Array:
    """Returns a result for each element, [n]; see `for_each`.

    Args:
        write: Returns the text of a kernel of elements, tables, and results.
        arguments: Its arguments.
        strings: [n] objects, contiguous.
        by_python: Returns the result for one element, or raises.
        tables: What else the kernel reads.
        dtype: Of the results.
    """
    found = np.empty(strings.size, dtype)

    def one(number: int) -> None:
        found[number] = by_python(strings[number])

    for_each(write, arguments, (strings, *tables, found), one)
    return found


@once
def _bound(
    write: Callable[..., str], arguments: tuple[Any, ...], arrays: int
) -> Callable[..., bool]:
    addresses = (id(bytes), id(str), *map(address_in_python, _FUNCTIONS))
    body = native.written_body(write, arguments)
    return body.bind(addresses, [NOT_COUNTED] * (arrays + 1), 1)


@once
def _bytes_are_as_known() -> bool:
    """Whether the fields of bytes are at the offsets that generated code uses."""
    sample = b"some sample"
    if bytes.__basicsize__ != _DATA + 1:
        return False
    return (
        ctypes.c_int64.from_address(id(sample) + _TYPE).value == id(bytes)
        and ctypes.c_int64.from_address(id(sample) + _SIZE).value == len(sample)
        and ctypes.string_at(id(sample) + _DATA, len(sample)) == sample
    )


def packed(arrays: Sequence[Any]) -> Array:
    """Returns an array of arrays: what a kernel writes to, see `Elements.data_at`."""
    found = np.empty(len(arrays), np.object_)
    for place, array in enumerate(arrays):
        found[place] = array
    return found


class Elements:
    """Emits a kernel's way through its elements.

    Args:
        arrays: Number of arrays after the state: the number of the first element, which becomes
            that of the element where the kernel stopped; their end; the parameters.
        parameters: Number of parameters.

    Attributes:
        code: The function being emitted.
        arrays: Addresses of the arrays.
        parameters: The parameters.
    """

    def __init__(self, arrays: int, parameters: int = 0) -> None:
        code = self.code = Code()
        self._bytes, self._text, *functions = code.sizes(2 + len(_FUNCTIONS))
        (
            *(self._create, self._encode, self._keep, self._release, self._clear_error),
            self._to_double,
        ) = (code.let(f"inttoptr i64 {each} to ptr") for each in functions)
        self._state, *self.arrays = code.arrays(arrays + 1)
        self.parameters = [
            code.load("i64", code.at("i64", self._state, 2 + n)) for n in range(parameters)
        ]
        self._stop = code.load("i64", code.at("i64", self._state, 1))

    @contextmanager
    def each(self) -> Iterator[tuple[str, Leave]]:
        """Goes from element to element; yields a number, and what leaves that one to Python."""
        code = self.code
        place = code.variable("i64", code.load("i64", self._state))
        with code.turns() as go_on_if:
            number = code.get(place)
            go_on_if(code.compare("slt", number, self._stop))
            yield number, go_on_if
            code.set(place, code.add(number, 1))
        code.store("i64", code.get(place), self._state)

    def object_at(self, array: str, number: str, leave_unless: Leave) -> str:
        """Returns the address of the object that is an element."""
        code = self.code
        last = code.subtract(self._stop, 1)
        ahead = code.smaller(code.add(number, _AHEAD), last)
        code.prefetch(code.load("ptr", code.at("ptr", array, ahead)))
        found = code.load("ptr", code.at("ptr", array, number))
        leave_unless(code.let(f"icmp ne ptr {found}, null"))
        return found

    def data_at(self, arrays: str, number: Value) -> str:
        """Returns the address of the data of an array that is an element; see `packed`."""
        array = self.code.load("ptr", self.code.at("ptr", arrays, number))
        return self.code.load("ptr", self.code.at("i8", array, DATA))

    def is_bytes(self, value: str) -> str:
        """Whether an object is exactly bytes."""
        return self._is_of(value, self._bytes)

    def is_text(self, value: str) -> str:
        """Whether an object is exactly str."""
        return self._is_of(value, self._text)

    def _is_of(self, value: str, kind: str) -> str:
        found = self.code.load("i64", self.code.at("i8", value, _TYPE))
        return self.code.compare("eq", found, kind)

    def read(self, strings: str, number: str, leave_unless: Leave) -> tuple[str, str]:
        """Returns the address of the first byte of an element, and its length."""
        code = self.code
        found = self.object_at(strings, number, leave_unless)
        leave_unless(self.is_bytes(found))
        return code.at("i8", found, _DATA), code.load("i64", code.at("i8", found, _SIZE))

    def create(
        self, data: str, length: Value, strings: str, number: Value, leave_unless: Leave
    ) -> str:
        """Makes a new object the element of an array.

        Args:
            data: Address of the first byte; `null` to write the bytes afterwards.
            length: Number of bytes.
            strings: Address of the array.
            number: Number of the element.
            leave_unless: See `each`; called if there is no memory.

        Returns:
            The address of the object's first byte.
        """
        code = self.code
        made = code.let(f"call ptr {self._create}(ptr {data}, i64 {length})")
        self._require(made, leave_unless)
        self.put(made, strings, number)
        return code.at("i8", made, _DATA)

    def encode(self, text: str, leave_unless: Leave) -> str:
        """Returns a new object, a str in UTF-8; leaves the element if it cannot be encoded."""
        made = self.code.let(f"call ptr {self._encode}(ptr {text})")
        self._require(made, leave_unless)
        return made

    def keep(self, value: str) -> None:
        """Adds a reference to an object."""
        self.code.do(f"call void {self._keep}(ptr {value})")

    def put(self, value: str, array: str, number: Value) -> None:
        """Makes an object the element of an array, which takes over the reference."""
        code = self.code
        slot = code.at("ptr", array, number)
        old = code.load("ptr", slot)
        code.store("ptr", value, slot)
        code.do(f"call void {self._release}(ptr {old})")

    def parse_float(self, address: str) -> str:
        """Returns the float64 nearest to the decimal number at an address, which must be one."""
        end = self.code.variable("ptr")
        return self.code.let(f"call double {self._to_double}(ptr {address}, ptr {end}, ptr null)")

    def _require(self, made: str, leave_unless: Leave) -> None:
        code = self.code
        is_made = code.let(f"icmp ne ptr {made}, null")
        with code.unless(is_made):
            code.do(f"call void {self._clear_error}()")
        leave_unless(is_made)

    def module(self) -> str:
        """Returns the whole module."""
        return self.code.module()


def byte_at(code: Code, base: str, place: Value) -> str:
    """Emits loading a byte; returns it as int64."""
    byte = code.load("i8", code.at("i8", base, place), 1)
    return code.let(f"zext i8 {byte} to i64")


def is_space(code: Code, byte: str) -> str:
    """Whether a byte, as int64, is one of `SPACES`."""
    control = code.let(f"icmp ult i64 {code.let(f'sub i64 {byte}, 9')}, 5")
    return code.either(control, code.compare("eq", byte, 32))
