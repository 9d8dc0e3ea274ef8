"""Sends and receives bytes with their CRC-32C over a socket, in machine code and without the GIL.

Sending copies the data, a part at a time, into a buffer that stays in cache: the source may be a
variable that others update concurrently, so a checksum of an earlier read might not match what is
sent. The checksum is computed from the copy, and the copy is passed to the kernel. Receiving
checksums each part just after it arrives, while it is in cache.

The checksum is computed by folding: each block is multiplied, without carries, by the constant that
gives it the same remainder some blocks later, and added there, until only a short rest is left.
Source: V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction,
Intel, 2009.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.host import host
from sparkflow_runtime.once import once

SUM_BYTES: Final = 4
"""Size of the trailer: the checksum of the bytes, little endian."""
_RECEIVED_BYTES: Final = 1 << 17
"""Bytes that are received at once, then checksummed."""
_ALL_ONES: Final = 0xFFFFFFFF
_POLYNOMIAL: Final = 0x11EDC6F41
_REGISTERS: Final = 4
"""Vectors that are folded in parallel, to hide the latency of the multiplication."""
_SEND_FLAGS: Final = 0x4040
"""Linux's MSG_DONTWAIT and MSG_NOSIGNAL."""
_RECEIVE_FLAGS: Final = 0x40


class Sending(IntEnum):
    """Fields of the record of a send; int64 each."""

    SOCKET = 0
    """The socket's file descriptor."""
    PIECES = 1
    """Number of pieces."""
    ROOM = 2
    """Size of the buffer in bytes, without the room for the checksum behind it."""
    PIECE = 3
    """The piece to copy next."""
    OFFSET = 4
    """The offset within it."""
    FILLED = 5
    """Bytes in the buffer; those that it held at first are sent unchanged."""
    SENT = 6
    """Number of those already sent."""
    SUM = 7
    """Checksum of what was copied so far, and of any bytes that precede it."""
    IS_WHOLE = 8
    """1 when all pieces and their checksum were copied."""


class Receiving(IntEnum):
    """Fields of the record of a receive; int64 each."""

    SOCKET = 0
    SIZE = 1
    """Bytes that are checksummed; the checksum follows them."""
    FILLED = 2
    """Bytes received so far, including the checksum."""
    SUM = 3
    STATUS = 4
    """Result of the last call: 0 if the peer closed the connection, -1 if it failed or had no
    data."""


def available() -> bool:
    """Whether this machine has the instructions and Linux's system calls."""
    return native.available() and _vector_bytes() > 0


@once
def _vector_bytes() -> int:
    """Size of the vectors that are folded; 0 if the processor or the system lacks support."""
    here = host()
    has = set(here.features.split(","))
    if not (here.triple.startswith("x86_64") and "linux" in here.triple):
        return 0
    if not {"+sse4.2", "+pclmul"} <= has:
        return 0
    return here.vector_bytes if "+vpclmulqdq" in has else 16


@once
def sender(pieces: int) -> Callable[..., bool]:
    """Returns a function that sends pieces until the socket accepts no more.

    Its arguments are the sizes of the pieces in bytes, int64; a buffer, uint8 [ROOM + SUM_BYTES];
    the record, see `Sending`; and the pieces, contiguous arrays. When it returns, either everything
    was sent, or the socket accepted no more, for whatever reason. Calling it again resumes.
    """
    return _bound(_sender(), pieces + 3)


@once
def receiver() -> Callable[..., bool]:
    """Returns a function of two arrays that receives available data from the socket.

    The arrays are the buffer to fill, uint8 [SIZE + SUM_BYTES], and the record, see `Receiving`.
    When it returns, either everything has arrived, or STATUS says why not. Calling it again
    resumes.
    """
    description = f"sealed pieces, received {_vector_bytes()}"
    return _bound(native.described_body(description, lambda: _sum(False) + _receiving()), 2)


@once
def _sender() -> native.Body:
    description = f"sealed pieces, sent {_vector_bytes()}"
    return native.described_body(description, lambda: _sum(True) + _sending())


def _bound(body: native.Body, arrays: int) -> Callable[..., bool]:
    return body.bind([], [entry.NOT_COUNTED] * arrays, 0, releases_gil=True)


def _factor(bits: int) -> int:
    """Returns the constant that moves a block by a number of bits, as the instruction needs it."""
    power = 1
    for _ in range(bits):
        power <<= 1
        if power >> 32:
            power ^= _POLYNOMIAL
    return int(f"{power:032b}"[::-1], 2) << 1


def _sum(copies: bool) -> str:
    """Returns `@sum`: it continues a given CRC-32C over more bytes.

    Args:
        copies: Whether it also copies them to `%target`. Each byte is read once.
    """
    vector = _vector_bytes()
    block, words = _REGISTERS * vector, vector // 8
    kind = f"<{words} x i64>"
    suffix = {16: "", 32: ".256", 64: ".512"}[vector]
    multiply = f"call {kind} @llvm.x86.pclmulqdq{suffix}({kind}"
    near, far = _factor(8 * block + 32), _factor(8 * block - 32)
    factors = f"<{', '.join(words // 2 * [f'i64 {near}, i64 {far}'])}>"
    numbers = range(_REGISTERS)

    def taken(name: str, base: str) -> str:
        lines = []
        for n in numbers:
            lines += [
                f"%{name}_from{n} = getelementptr i8, ptr {base}, i64 {n * vector}",
                f"%{name}{n} = load volatile {kind}, ptr %{name}_from{n}, align 1",
            ]
        if copies:
            lines.append(f"%{name}_target = call ptr @beside(ptr %target, ptr %data, ptr {base})")
            for n in numbers:
                lines += [
                    f"%{name}_to{n} = getelementptr i8, ptr %{name}_target, i64 {n * vector}",
                    f"store {kind} %{name}{n}, ptr %{name}_to{n}, align 1",
                ]
        return "\n  ".join(lines)

    def serial(
        name: str, base: str, begin: str, register: str, start: str, size: str, after: str
    ) -> str:
        """Checksums words one by one, between blocks `start` and `after`, into `%{name}_crc`."""
        copied = f"""
  %{name}_to = call ptr @beside(ptr %target, ptr %data, ptr %{name}_place)
  store i64 %{name}_word, ptr %{name}_to, align 1"""
        if not copies or base != "%data":
            copied = ""
        return f"""
{name}:
  %{name}_at = phi i64 [{begin}, %{start}], [%{name}_next, %{name}]
  %{name}_before = phi i64 [{register}, %{start}], [%{name}_crc, %{name}]
  %{name}_place = getelementptr i8, ptr {base}, i64 %{name}_at
  %{name}_word = load volatile i64, ptr %{name}_place, align 1{copied}
  %{name}_crc = call i64 @llvm.x86.sse42.crc32.64.64(i64 %{name}_before, i64 %{name}_word)
  %{name}_next = add i64 %{name}_at, 8
  %{name}_more = icmp ult i64 %{name}_next, {size}
  br i1 %{name}_more, label %{name}, label %{after}
"""

    folded = "\n  ".join(
        line
        for n in numbers
        for line in (
            f"%low{n} = {multiply} %sum{n}, {kind} {factors}, i8 0)",
            f"%high{n} = {multiply} %sum{n}, {kind} {factors}, i8 17)",
            f"%both{n} = xor {kind} %low{n}, %high{n}",
            f"%next{n} = xor {kind} %both{n}, %new{n}",
        )
    )
    sums = "\n  ".join(
        f"%sum{n} = phi {kind} [%{'begun' if n == 0 else f'first{n}'}, %fold], [%next{n}, %blocks]"
        for n in numbers
    )
    stored = "\n  ".join(
        f"%at{n} = getelementptr i8, ptr %short, i64 {n * vector}\n  "
        f"store {kind} %next{n}, ptr %at{n}, align 1"
        for n in numbers
    )
    copied_byte = """
  %byte_to = call ptr @beside(ptr %target, ptr %data, ptr %byte_place)
  store i8 %byte, ptr %byte_to"""
    return f"""
declare {kind} @llvm.x86.pclmulqdq{suffix}({kind}, {kind}, i8)
declare i64 @llvm.x86.sse42.crc32.64.64(i64, i64)
declare i32 @llvm.x86.sse42.crc32.32.8(i32, i8)

define internal ptr @beside(ptr %target, ptr %data, ptr %place) alwaysinline {{
  %from = ptrtoint ptr %data to i64
  %to = ptrtoint ptr %place to i64
  %offset = sub i64 %to, %from
  %there = getelementptr i8, ptr %target, i64 %offset
  ret ptr %there
}}

define internal i64 @sum(i64 %given, ptr %data, i64 %size, ptr %target) {{
start:
  %short = alloca [{block} x i8], align 64
  %register = xor i64 %given, {_ALL_ONES}
  %in_blocks = and i64 %size, {-block}
  %is_long = icmp ugt i64 %in_blocks, {block}
  br i1 %is_long, label %fold, label %rest

fold:
  {taken("first", "%data")}
  %with_register = insertelement {kind} zeroinitializer, i64 %register, i32 0
  %begun = xor {kind} %first0, %with_register
  br label %blocks

blocks:
  %done = phi i64 [{block}, %fold], [%done_next, %blocks]
  {sums}
  %from = getelementptr i8, ptr %data, i64 %done
  {taken("new", "%from")}
  {folded}
  %done_next = add i64 %done, {block}
  %more = icmp ult i64 %done_next, %in_blocks
  br i1 %more, label %blocks, label %folded

folded:
  {stored}
  br label %short_word
{serial("short_word", "%short", "0", "0", "folded", str(block), "rest")}
rest:
  %begin = phi i64 [0, %start], [%in_blocks, %short_word]
  %so_far = phi i64 [%register, %start], [%short_word_crc, %short_word]
  %in_words = and i64 %size, -8
  %any_word = icmp ult i64 %begin, %in_words
  br i1 %any_word, label %word, label %tail
{serial("word", "%data", "%begin", "%so_far", "rest", "%in_words", "tail")}
tail:
  %tail_crc = phi i64 [%so_far, %rest], [%word_crc, %word]
  %narrow = trunc i64 %tail_crc to i32
  %any_byte = icmp ult i64 %in_words, %size
  br i1 %any_byte, label %byte_loop, label %end

byte_loop:
  %byte_at = phi i64 [%in_words, %tail], [%byte_next, %byte_loop]
  %byte_before = phi i32 [%narrow, %tail], [%byte_crc, %byte_loop]
  %byte_place = getelementptr i8, ptr %data, i64 %byte_at
  %byte = load volatile i8, ptr %byte_place{copied_byte if copies else ""}
  %byte_crc = call i32 @llvm.x86.sse42.crc32.32.8(i32 %byte_before, i8 %byte)
  %byte_next = add i64 %byte_at, 1
  %more_bytes = icmp ult i64 %byte_next, %size
  br i1 %more_bytes, label %byte_loop, label %end

end:
  %final = phi i32 [%narrow, %tail], [%byte_crc, %byte_loop]
  %wide = zext i32 %final to i64
  %result = xor i64 %wide, {_ALL_ONES}
  ret i64 %result
}}
"""


def _places(fields: type[IntEnum]) -> str:
    return "".join(
        f"\n  %at_{each.name} = getelementptr i64, ptr %record, i64 {each.value}" for each in fields
    )


def _sending() -> str:
    return f"""
declare i64 @send(i32, ptr, i64, i32)
declare i64 @llvm.umin.i64(i64, i64)

define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
start:
  %lengths = load ptr, ptr %arrays
  %arrays1 = getelementptr ptr, ptr %arrays, i64 1
  %buffer = load ptr, ptr %arrays1
  %arrays2 = getelementptr ptr, ptr %arrays, i64 2
  %record = load ptr, ptr %arrays2{_places(Sending)}
  %given = getelementptr ptr, ptr %arrays, i64 3
  %socket64 = load i64, ptr %at_SOCKET
  %socket = trunc i64 %socket64 to i32
  %pieces = load i64, ptr %at_PIECES
  %room = load i64, ptr %at_ROOM
  br label %fill

fill:
  %piece = load i64, ptr %at_PIECE
  %filled = load i64, ptr %at_FILLED
  %all_copied = icmp uge i64 %piece, %pieces
  br i1 %all_copied, label %close, label %look

look:
  %is_full = icmp uge i64 %filled, %room
  br i1 %is_full, label %send, label %copy

copy:
  %at_piece = getelementptr ptr, ptr %given, i64 %piece
  %begin = load ptr, ptr %at_piece
  %at_length = getelementptr i64, ptr %lengths, i64 %piece
  %length = load i64, ptr %at_length
  %offset = load i64, ptr %at_OFFSET
  %source = getelementptr i8, ptr %begin, i64 %offset
  %left = sub i64 %length, %offset
  %free = sub i64 %room, %filled
  %count = call i64 @llvm.umin.i64(i64 %left, i64 %free)
  %target = getelementptr i8, ptr %buffer, i64 %filled
  %before = load i64, ptr %at_SUM
  %after = call i64 @sum(i64 %before, ptr %source, i64 %count, ptr %target)
  store i64 %after, ptr %at_SUM
  %filled_more = add i64 %filled, %count
  store i64 %filled_more, ptr %at_FILLED
  %offset_next = add i64 %offset, %count
  %is_end = icmp uge i64 %offset_next, %length
  %piece_more = add i64 %piece, 1
  %piece_next = select i1 %is_end, i64 %piece_more, i64 %piece
  %offset_kept = select i1 %is_end, i64 0, i64 %offset_next
  store i64 %piece_next, ptr %at_PIECE
  store i64 %offset_kept, ptr %at_OFFSET
  br label %fill

close:
  %is_whole = load i64, ptr %at_IS_WHOLE
  %has_sum = icmp ne i64 %is_whole, 0
  br i1 %has_sum, label %send, label %write

write:
  %total = load i64, ptr %at_SUM
  %total32 = trunc i64 %total to i32
  %at_total = getelementptr i8, ptr %buffer, i64 %filled
  store i32 %total32, ptr %at_total, align 1
  %filled_all = add i64 %filled, {SUM_BYTES}
  store i64 %filled_all, ptr %at_FILLED
  store i64 1, ptr %at_IS_WHOLE
  br label %send

send:
  %there = load i64, ptr %at_FILLED
  %sent = load i64, ptr %at_SENT
  %to_send = sub i64 %there, %sent
  %nothing = icmp eq i64 %to_send, 0
  br i1 %nothing, label %emptied, label %call

call:
  %from = getelementptr i8, ptr %buffer, i64 %sent
  %taken = call i64 @send(i32 %socket, ptr %from, i64 %to_send, i32 {_SEND_FLAGS})
  %failed = icmp slt i64 %taken, 0
  br i1 %failed, label %leave, label %took

took:
  %sent_next = add i64 %sent, %taken
  store i64 %sent_next, ptr %at_SENT
  br label %send

emptied:
  store i64 0, ptr %at_FILLED
  store i64 0, ptr %at_SENT
  %ended = load i64, ptr %at_IS_WHOLE
  %is_over = icmp ne i64 %ended, 0
  br i1 %is_over, label %leave, label %fill

leave:
  ret void
}}
"""


def _receiving() -> str:
    return f"""
declare i64 @recv(i32, ptr, i64, i32)
declare i64 @llvm.umin.i64(i64, i64)

define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
start:
  %target = load ptr, ptr %arrays
  %arrays1 = getelementptr ptr, ptr %arrays, i64 1
  %record = load ptr, ptr %arrays1{_places(Receiving)}
  %socket64 = load i64, ptr %at_SOCKET
  %socket = trunc i64 %socket64 to i32
  %size = load i64, ptr %at_SIZE
  %whole = add i64 %size, {SUM_BYTES}
  br label %look

look:
  %filled = load i64, ptr %at_FILLED
  %left = sub i64 %whole, %filled
  %is_done = icmp eq i64 %left, 0
  br i1 %is_done, label %leave, label %call

call:
  %wanted = call i64 @llvm.umin.i64(i64 %left, i64 {_RECEIVED_BYTES})
  %to = getelementptr i8, ptr %target, i64 %filled
  %count = call i64 @recv(i32 %socket, ptr %to, i64 %wanted, i32 {_RECEIVE_FLAGS})
  store i64 %count, ptr %at_STATUS
  %came = icmp sgt i64 %count, 0
  br i1 %came, label %took, label %leave

took:
  %filled_next = add i64 %filled, %count
  store i64 %filled_next, ptr %at_FILLED
  %summed_end = call i64 @llvm.umin.i64(i64 %filled_next, i64 %size)
  %any = icmp ugt i64 %summed_end, %filled
  br i1 %any, label %sum, label %look

sum:
  %summed = sub i64 %summed_end, %filled
  %before = load i64, ptr %at_SUM
  %after = call i64 @sum(i64 %before, ptr %to, i64 %summed, ptr null)
  store i64 %after, ptr %at_SUM
  br label %look

leave:
  ret void
}}
"""
