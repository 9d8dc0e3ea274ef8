"""Hashes of strings: farmhash, TensorFlow's older hash, and SipHash-2-4.

Each formula stands once, for 64-bit words that are either numpy's uint64 or registers of machine
code. Sources: Google's farmhash (`farmhashna::Hash64`, frozen as Fingerprint64), Aumasson and
Bernstein's "SipHash: a fast short-input PRF" (2012), and Austin Appleby's MurmurHash64A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.strings.objects import Elements, mapped

Array = np.ndarray[Any, Any]
Word = Any
"""A word: numpy's uint64, an int that it holds, or a `_Register`. Arithmetic is modulo 2⁶⁴."""
State = tuple[Word, ...]
_ALL_BITS: Final = (1 << 64) - 1
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_MURMUR: Final = 0xC6A4A7935BD1E995
_MURMUR_SEED: Final = 0xDECAFCAFFE


class Hash(Enum):
    """A hash function.

    Attributes:
        FARM: Farmhash's Fingerprint64.
        MURMUR: MurmurHash64A, with TensorFlow's seed.
        SIP: SipHash-2-4.
    """

    FARM = "farm"
    MURMUR = "murmur"
    SIP = "sip"


class _Data(Protocol):
    """Little-endian unsigned numbers at places of a string."""

    def word(self, at: Any) -> Word:
        """Returns 8 bytes."""

    def half(self, at: Any) -> Word:
        """Returns 4 bytes."""

    def byte(self, at: Any) -> Word:
        """Returns a byte."""


_NO_KEY: Final = np.zeros(2, np.uint64)


def hashed(function: Hash, strings: Array, key: Sequence[int] = (0, 0)) -> Array:
    """Returns the hashes of strings.

    Args:
        function: The hash function.
        strings: [n] objects, bytes, contiguous.
        key: The key of SipHash, of two 64-bit numbers.

    Returns:
        [n] uint64.
    """
    words = np.array([each & _ALL_BITS for each in key], np.uint64) if any(key) else _NO_KEY
    by_python = partial(hash_of, function, key=key)
    return mapped(text, (function,), strings, by_python, words, dtype=np.uint64)


def hash_of(function: Hash, data: bytes, key: Sequence[int] = (0, 0)) -> int:
    """Returns the hash of one string, by numpy.

    Args:
        function: The hash function.
        data: The string.
        key: The key of SipHash.
    """
    with np.errstate(over="ignore"):
        return int(_in_python(function, _Bytes(data), np.uint64(len(data)), key))


def _in_python(function: Hash, data: _Bytes, size: Any, key: Sequence[int]) -> Word:
    length = int(size)
    if function is Hash.FARM:
        for limit, formula in _FARM_UP_TO:
            if length <= limit:
                return formula(data, size)
        state = _farm_begin(data)
        for at in range(0, (length - 1) // 64 * 64, 64):
            state = _farm_block(state, data, at)
        return _farm_end(state, data, size)
    begin, block, end = _BY_WORDS[function]
    whole = length // 8 * 8
    state = begin(size, [np.uint64(each & _ALL_BITS) for each in key])
    for at in range(0, whole, 8):
        state = block(state, data.word(at))
    return end(state, data.rest(whole), size)


class _Bytes:
    """Data in Python."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def word(self, at: Any) -> Word:
        return self._number(at, 8)

    def half(self, at: Any) -> Word:
        return self._number(at, 4)

    def byte(self, at: Any) -> Word:
        return self._number(at, 1)

    def rest(self, at: int) -> Word:
        return self._number(at, 8)

    def _number(self, at: Any, size: int) -> Word:
        return np.uint64(int.from_bytes(self._data[int(at) : int(at) + size], "little"))


def _rotated(value: Word, bits: int) -> Word:
    return value >> bits | value << (64 - bits)


def _mixed(value: Word) -> Word:
    return value ^ value >> 47


def _joined(u: Word, v: Word, factor: Word) -> Word:
    a = _mixed((u ^ v) * factor)
    return _mixed((v ^ a) * factor) * factor


def _farm_0(data: _Data, size: Word) -> Word:
    return size * 0 + _K2


def _farm_3(data: _Data, size: Word) -> Word:
    y = data.byte(0) + (data.byte(size >> 1) << 8)
    z = size + (data.byte(size - 1) << 2)
    return _mixed(y * _K2 ^ z * _K0) * _K2


def _farm_7(data: _Data, size: Word) -> Word:
    return _joined(size + (data.half(0) << 3), data.half(size - 4), size * 2 + _K2)


def _farm_16(data: _Data, size: Word) -> Word:
    factor = size * 2 + _K2
    a, b = data.word(0) + _K2, data.word(size - 8)
    c = _rotated(b, 37) * factor + a
    return _joined(c, (_rotated(a, 25) + b) * factor, factor)


def _farm_32(data: _Data, size: Word) -> Word:
    factor = size * 2 + _K2
    a, b = data.word(0) * _K1, data.word(8)
    c, d = data.word(size - 8) * factor, data.word(size - 16) * _K2
    u = _rotated(a + b, 43) + _rotated(c, 30) + d
    return _joined(u, a + _rotated(b + _K2, 18) + c, factor)


def _farm_64(data: _Data, size: Word) -> Word:
    factor = size * 2 + _K2
    a, b = data.word(0) * _K2, data.word(8)
    c, d = data.word(size - 8) * factor, data.word(size - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _joined(y, a + _rotated(b + _K2, 18) + c, factor)
    e, f = data.word(16) * factor, data.word(24)
    g, h = (y + data.word(size - 32)) * factor, (z + data.word(size - 24)) * factor
    u = _rotated(e + f, 43) + _rotated(g, 30) + h
    return _joined(u, e + _rotated(f + a, 18) + g, factor)


_FARM_UP_TO: Final[Sequence[tuple[int, Callable[[_Data, Word], Word]]]] = (
    (0, _farm_0),
    (3, _farm_3),
    (7, _farm_7),
    (16, _farm_16),
    (32, _farm_32),
    (64, _farm_64),
)
"""By the largest size in bytes; longer strings are hashed by blocks of 64."""


def _farm_begin(data: _Data) -> State:
    first = data.word(0)
    zero = first * 0
    seed = 81
    y = zero + (seed * _K1 + 113) % (1 << 64)
    z = _mixed(y * _K2 + 113) * _K2
    return first + seed * _K2 % (1 << 64), y, z, zero, zero, zero, zero


def _farm_block(state: State, data: _Data, at: Any, factor: Word = _K1, times: int = 1) -> State:
    x, y, z, v0, v1, w0, w1 = state
    x = _rotated(x + y + v0 + data.word(at + 8), 37) * factor
    y = _rotated(y + v1 + data.word(at + 48), 42) * factor
    x = x ^ w1 * times
    y = y + v0 * times + data.word(at + 40)
    z = _rotated(z + w0, 33) * factor
    v0, v1 = _weak(data, at, v1 * factor, x + w0)
    w0, w1 = _weak(data, at + 32, z + w1, y + data.word(at + 16))
    return z, y, x, v0, v1, w0, w1


def _weak(data: _Data, at: Any, a: Word, b: Word) -> tuple[Word, Word]:
    a = a + data.word(at)
    b = _rotated(b + a + data.word(at + 24), 21)
    sum_ = a + data.word(at + 8) + data.word(at + 16)
    return sum_ + data.word(at + 24), b + _rotated(sum_, 44) + a


def _farm_end(state: State, data: _Data, size: Word) -> Word:
    x, y, z, v0, v1, w0, w1 = state
    factor = ((z & 0xFF) << 1) + _K1
    w0 = w0 + ((size - 1) & 63)
    v0 = v0 + w0
    w0 = w0 + v0
    x, y, z, v0, v1, w0, w1 = _farm_block((x, y, z, v0, v1, w0, w1), data, size - 64, factor, 9)
    one = _joined(v0, w0, factor) + _mixed(y) * _K0 + z
    return _joined(one, _joined(v1, w1, factor) + x, factor)


def _murmur_begin(size: Word, key: Sequence[Word]) -> State:
    return (size * _MURMUR ^ _MURMUR_SEED,)


def _murmur_block(state: State, word: Word) -> State:
    return ((state[0] ^ _mixed(word * _MURMUR) * _MURMUR) * _MURMUR,)


def _murmur_end(state: State, rest: Word, size: Word) -> Word:
    has_rest = ((size & 7) + 7) >> 3
    factor = has_rest * (_MURMUR - 1) + 1
    return _mixed(_mixed((state[0] ^ rest) * factor) * _MURMUR)


def _sip_begin(size: Word, key: Sequence[Word]) -> State:
    k0, k1 = key
    return (
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    )


def _sip_block(state: State, word: Word) -> State:
    a, b, c, d = state
    a, b, c, d = _sip_rounds((a, b, c, d ^ word), 2)
    return a ^ word, b, c, d


def _sip_end(state: State, rest: Word, size: Word) -> Word:
    a, b, c, d = _sip_block(state, rest | (size & 0xFF) << 56)
    a, b, c, d = _sip_rounds((a, b, c ^ 0xFF, d), 4)
    return a ^ b ^ c ^ d


def _sip_rounds(state: State, count: int) -> State:
    a, b, c, d = state
    for _ in range(count):
        a = a + b
        b = _rotated(b, 51) ^ a
        a = _rotated(a, 32)
        c = c + d
        d = _rotated(d, 48) ^ c
        a = a + d
        d = _rotated(d, 43) ^ a
        c = c + b
        b = _rotated(b, 47) ^ c
        c = _rotated(c, 32)
    return a, b, c, d


_BY_WORDS: Final = {
    Hash.MURMUR: (_murmur_begin, _murmur_block, _murmur_end),
    Hash.SIP: (_sip_begin, _sip_block, _sip_end),
}
"""How the state begins, takes a word of the string, and becomes the hash with the last bytes."""


class _Register:
    """A word in machine code."""

    __slots__ = ("_code", "name")

    def __init__(self, code: Code, name: str) -> None:
        self._code, self.name = code, name

    def _with(self, operation: str, other: Word) -> _Register:
        value: Value = other.name if isinstance(other, _Register) else _signed(int(other))
        return _Register(self._code, self._code.let(f"{operation} i64 {self.name}, {value}"))

    def __add__(self, other: Word) -> _Register:
        return self._with("add", other)

    def __sub__(self, other: Word) -> _Register:
        return self._with("sub", other)

    def __mul__(self, other: Word) -> _Register:
        return self._with("mul", other)

    def __xor__(self, other: Word) -> _Register:
        return self._with("xor", other)

    def __or__(self, other: Word) -> _Register:
        return self._with("or", other)

    def __and__(self, other: Word) -> _Register:
        return self._with("and", other)

    def __lshift__(self, bits: int) -> _Register:
        return self._with("shl", bits)

    def __rshift__(self, bits: int) -> _Register:
        return self._with("lshr", bits)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class _Memory:
    """Data at an address."""

    def __init__(self, code: Code, address: str) -> None:
        self._code, self._address = code, address

    def word(self, at: Any) -> _Register:
        return _Register(self._code, self._code.load("i64", self._at(at), 1))

    def half(self, at: Any) -> _Register:
        return self._widened("i32", at)

    def byte(self, at: Any) -> _Register:
        return self._widened("i8", at)

    def rest(self, start: str, end: str) -> _Register:
        code = self._code
        found = code.variable("i64", 0)
        with code.loop(start, end) as at:
            byte = self.byte(_Register(code, at))
            bits = code.multiply(code.subtract(at, start), 8)
            moved = code.let(f"shl i64 {byte.name}, {bits}")
            code.set(found, code.let(f"or i64 {code.get(found)}, {moved}"))
        return _Register(code, code.get(found))

    def _at(self, at: Any) -> str:
        return self._code.at("i8", self._address, at.name if isinstance(at, _Register) else at)

    def _widened(self, kind: str, at: Any) -> _Register:
        narrow = self._code.load(kind, self._at(at), 1)
        return _Register(self._code, self._code.let(f"zext {kind} {narrow} to i64"))


def text(function: Hash) -> str:
    """Returns the kernel: of strings, the key, and the hashes, uint64.

    Args:
        function: The hash function.
    """
    elements = Elements(3)
    code = elements.code
    strings, key, found = elements.arrays
    words = [_Register(code, code.load("i64", code.at("i64", key, n))) for n in range(2)]
    result = code.variable("i64")
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        data, size = _Memory(code, address), _Register(code, length)
        if function is Hash.FARM:
            _emit_farm(code, data, size, result, _FARM_UP_TO)
        else:
            begin, block, end = _BY_WORDS[function]
            whole = code.let(f"and i64 {length}, -8")
            state = _repeated(
                code, begin(size, words), whole, 8, lambda now, at: block(now, data.word(at))
            )
            code.set(result, end(state, data.rest(whole, length), size).name)
        code.store("i64", code.get(result), code.at("i64", found, number))
    return elements.module()


def _emit_farm(
    code: Code,
    data: _Memory,
    size: _Register,
    result: str,
    short: Sequence[tuple[int, Callable[[_Data, Word], Word]]],
) -> None:
    if not short:
        whole = code.let(f"and i64 {code.subtract(size.name, 1)}, -64")
        state = _repeated(
            code, _farm_begin(data), whole, 64, lambda now, at: _farm_block(now, data, at)
        )
        code.set(result, _farm_end(state, data, size).name)
        return
    (limit, formula), *longer = short
    fits = code.compare("sle", size.name, limit)
    with code.when(fits):
        code.set(result, formula(data, size).name)
    with code.unless(fits):
        _emit_farm(code, data, size, result, longer)


def _repeated(
    code: Code, state: State, stop: str, step: int, block: Callable[[State, Word], State]
) -> State:
    """Returns the state after a block at each multiple of `step` below `stop`."""
    variables = [code.variable("i64", each.name) for each in state]
    with code.loop(0, stop, step) as at:
        now = tuple(_Register(code, code.get(each)) for each in variables)
        for variable, value in zip(variables, block(now, _Register(code, at)), strict=True):
            code.set(variable, value.name)
    return tuple(_Register(code, code.get(each)) for each in variables)
