"""Machine code that works on table rows selected by indices, scattered in memory.

A *rule* is the module of a fused kernel of rank 1 (`loops`), which works on the elements of one
row. Here are the loops around it, which locate the rows, prefetch the next ones, and pass their
addresses to the rule. Duplicate indices are found by hashing.

Every body's first array is a header of int64 numbers, see `Header`, which also receives its
results. So one compiled body handles arrays of all sizes, and nothing is bound per call.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from sparkflow_runtime.dtypes import DType, int32, int64

AHEAD: Final = 8
"""How many rows ahead a row is prefetched.

Measured 2026-11-21 for 4096 rows of 64 float32 of a 256 MB table: 157 µs for 8, 169 for 4, 174 for
16, 191 without prefetching; `numpy.take` needs 223.
"""
_LINE_BYTES: Final = 64
_FETCHED_BYTES: Final = 512
"""Bytes prefetched per row; beyond them the hardware prefetcher takes over."""
HASH_FACTOR: Final = -7046029254386353131
"""2**64 divided by the golden ratio, odd, as a signed number (Knuth, volume 3, section 6.4)."""


class Header(IntEnum):
    """Fields of the first array."""

    COUNT = 0
    """Number of indices."""
    BOUND = 1
    """Exclusive upper bound of the indices, whose lower bound is 0."""
    SHIFT = 2
    """64 minus the binary logarithm of the size of the hash table."""
    ROW = 3
    """Elements per row; bytes for `gather`."""
    SOURCES = 4
    """Exclusive upper bound of the numbers of update rows."""
    PARTS = 5
    """Number of parts that the work is split into: the extent that the body is bound with."""
    DISTINCT = 6
    """Result: the number of distinct indices."""
    BAD = 7
    """Result: the position of the first index out of bounds, or -1."""


HEADER_SIZE: Final = len(Header)

_SIGNATURE: Final = "define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part)"


def distinct(index: DType, checked: bool) -> str:
    """Returns code that finds duplicate indices and chains them, in order of appearance.

    Arrays: header; indices; the hash table, int32, whose size is a power of two larger than the
    number of indices; then, each as long as the indices: the distinct indices, int64, and in int32
    the number of each index among these, the first position of each distinct index, its last
    position, and the next position of the same index (-1 for none). For one part. Readers of the
    results are safe from concurrent changes of the indices.

    Args:
        index: int32 or int64.
        checked: Whether to check the bound; the first index outside it ends the search.
    """
    check = "%bad = icmp uge i64 %x, %BOUND" if checked else "%bad = icmp eq i64 0, 1"
    names = ("header", "ids", "table", "rows", "number", "first", "last", "following")
    return f"""{prelude(index)}
{_SIGNATURE} {{
start:{loads(names)}{fields(Header.COUNT, Header.BOUND, Header.SHIFT, Header.DISTINCT, Header.BAD)}
  store i64 -1, ptr %at_BAD
  %bits = sub i64 64, %SHIFT
  %slots = shl i64 1, %bits
  %mask = sub i64 %slots, 1
  %table_bytes = shl i64 %slots, 2
  call void @llvm.memset.p0.i64(ptr %table, i8 -1, i64 %table_bytes, i1 false)
  br label %head
head:
  %i = phi i64 [0, %start], [%next_i, %note]
  %found = phi i64 [0, %start], [%found_after, %note]
  %more = icmp slt i64 %i, %COUNT
  br i1 %more, label %look, label %end
look:
  %i32 = trunc i64 %i to i32
  %x = call i64 @index(ptr %ids, i64 %i)
  {check}
  br i1 %bad, label %refuse, label %hash
hash:
  %product = mul i64 %x, {HASH_FACTOR}
  %slot_first = lshr i64 %product, %SHIFT
  br label %probe
probe:
  %slot = phi i64 [%slot_first, %hash], [%slot_next, %collide]
  %at_slot = getelementptr i32, ptr %table, i64 %slot
  %entry = load i32, ptr %at_slot
  %free = icmp slt i32 %entry, 0
  br i1 %free, label %new, label %compare
compare:
  %known = zext i32 %entry to i64
  %y = call i64 @wide(ptr %rows, i64 %known)
  %same = icmp eq i64 %x, %y
  br i1 %same, label %chain, label %collide
collide:
  %slot_plus = add i64 %slot, 1
  %slot_next = and i64 %slot_plus, %mask
  br label %probe
new:
  %found32 = trunc i64 %found to i32
  store i32 %found32, ptr %at_slot
  %at_row = getelementptr i64, ptr %rows, i64 %found
  store i64 %x, ptr %at_row
  %at_new = getelementptr i32, ptr %first, i64 %found
  store i32 %i32, ptr %at_new
  %found_plus = add i64 %found, 1
  br label %note
chain:
  %before = call i64 @place(ptr %last, i64 %known)
  %at_before = getelementptr i32, ptr %following, i64 %before
  store i32 %i32, ptr %at_before
  br label %note
note:
  %which = phi i32 [%found32, %new], [%entry, %chain]
  %found_after = phi i64 [%found_plus, %new], [%found, %chain]
  %which64 = zext i32 %which to i64
  %at_which = getelementptr i32, ptr %last, i64 %which64
  store i32 %i32, ptr %at_which
  %at_number = getelementptr i32, ptr %number, i64 %i
  store i32 %which, ptr %at_number
  %at_following = getelementptr i32, ptr %following, i64 %i
  store i32 -1, ptr %at_following
  %next_i = add i64 %i, 1
  br label %head
refuse:
  store i64 %i, ptr %at_BAD
  br label %end
end:
  store i64 %found, ptr %at_DISTINCT
  ret void
}}
"""


def gather(index: DType, row_bytes: int) -> str:
    """Returns code that copies rows: `out[i] = table[indices[i]]`.

    Arrays: header; indices; table; out; int64, one per part: the position of the first index out of
    bounds in this part, which ends the part, or -1.

    Args:
        index: int32 or int64.
        row_bytes: Size of a row; 0 if it is in the header. Known sizes save a call per row: 4096
            rows of 4 bytes take 7 µs instead of 25 (2026-11-21).
    """
    size = row_bytes or "%ROW"
    fetch = (
        ""
        if 0 < row_bytes < _LINE_BYTES
        else f"""
  %later = call i64 @ahead(i64 %i, i64 %last)
  %later_x = call i64 @index(ptr %ids, i64 %later)
  %later_row = call ptr @row(ptr %table, i64 %later_x, i64 {size})
  call void @fetch_to_read(ptr %later_row, i64 {size})"""
    )
    return f"""{prelude(index)}
{_SIGNATURE} {{
start:{loads(("header", "ids", "table", "out", "bad"))}
  {fields(Header.COUNT, Header.BOUND, Header.ROW, Header.PARTS)}
  {share("COUNT")}
  %at_bad = getelementptr i64, ptr %bad, i64 %part
  store i64 -1, ptr %at_bad
  %last = sub i64 %to, 1
  %any = icmp slt i64 %from, %to
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [%from, %start], [%next_i, %copy]{fetch}
  %x = call i64 @index(ptr %ids, i64 %i)
  %outside = icmp uge i64 %x, %BOUND
  br i1 %outside, label %refuse, label %copy
copy:
  %source = call ptr @row(ptr %table, i64 %x, i64 {size})
  %target = call ptr @row(ptr %out, i64 %i, i64 {size})
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 {size}, i1 false)
  %next_i = add i64 %i, 1
  %more = icmp slt i64 %next_i, %to
  br i1 %more, label %loop, label %end
refuse:
  store i64 %i, ptr %at_bad
  br label %end
end:
  ret void
}}
"""


def prelude(index: DType) -> str:
    """Helper functions of the loops, for indices of this dtype."""
    return f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @index(ptr %ids, i64 %i) alwaysinline {{
  %x = call i64 @{_READERS[index]}(ptr %ids, i64 %i)
  ret i64 %x
}}

define internal i64 @place(ptr %places, i64 %i) alwaysinline {{
  %at = getelementptr i32, ptr %places, i64 %i
  %found = load i32, ptr %at
  %x = sext i32 %found to i64
  ret i64 %x
}}

define internal i64 @wide(ptr %places, i64 %i) alwaysinline {{
  %at = getelementptr i64, ptr %places, i64 %i
  %x = load i64, ptr %at
  ret i64 %x
}}

define internal ptr @row(ptr %table, i64 %number, i64 %bytes) alwaysinline {{
  %offset = mul i64 %number, %bytes
  %at = getelementptr i8, ptr %table, i64 %offset
  ret ptr %at
}}

define internal i64 @ahead(i64 %i, i64 %last) alwaysinline {{
  %later = add i64 %i, {AHEAD}
  %within = icmp slt i64 %later, %last
  %x = select i1 %within, i64 %later, i64 %last
  ret i64 %x
}}
{_fetch("fetch_to_read", 0)}
{_fetch("fetch_to_write", 1)}
"""


_READERS: Final = {int32: "place", int64: "wide"}


def _fetch(name: str, write: int) -> str:
    """Returns a function that prefetches the start of a row; rows out of bounds are harmless."""
    return f"""
define internal void @{name}(ptr %row, i64 %bytes) alwaysinline {{
start:
  %most = icmp slt i64 %bytes, {_FETCHED_BYTES}
  %end = select i1 %most, i64 %bytes, i64 {_FETCHED_BYTES}
  br label %line
line:
  %offset = phi i64 [0, %start], [%next, %line]
  %at = getelementptr i8, ptr %row, i64 %offset
  call void @llvm.prefetch.p0(ptr %at, i32 {write}, i32 3, i32 1)
  %next = add i64 %offset, {_LINE_BYTES}
  %more = icmp slt i64 %next, %end
  br i1 %more, label %line, label %done
done:
  ret void
}}"""


def loads(names: Sequence[str]) -> str:
    """Loads the addresses of the body's arrays into these names."""
    return "".join(
        f"""
  %array_{i} = getelementptr ptr, ptr %arrays, i64 {i}
  %{name} = load ptr, ptr %array_{i}"""
        for i, name in enumerate(names)
    )


def fields(*wanted: Header) -> str:
    """Loads fields of the header as `%COUNT` etc., with their addresses as `%at_COUNT`."""
    return "".join(
        f"""
  %at_{each.name} = getelementptr i64, ptr %header, i64 {each.value}
  %{each.name} = load i64, ptr %at_{each.name}"""
        for each in wanted
    )


def share(total: str) -> str:
    """Computes `%from` and `%to`: this call's part of `total` items."""
    return f"""%from_product = mul i64 %{total}, %lo
  %from = sdiv i64 %from_product, %PARTS
  %to_product = mul i64 %{total}, %hi
  %to = sdiv i64 %to_product, %PARTS"""
