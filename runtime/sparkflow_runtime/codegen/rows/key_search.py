"""Machine code that finds 64-bit keys in a persistent hash table, and inserts new ones.

The table uses open addressing with linear probing: pairs of int64, a key and its entry number, -1
for an empty slot. Keys are never deleted: to drop some, rebuild the table.
"""

from __future__ import annotations

from sparkflow_runtime.codegen.rows.sparse_rows import HASH_FACTOR, Header, fields, loads, prelude
from sparkflow_runtime.dtypes import int64


def find_or_add() -> str:
    """Returns code that finds each key's entry; new keys get free ones, in order of appearance.

    Arrays: header (`COUNT` keys; at most `BOUND` new ones; `SHIFT`; the number of new ones is
    returned in `DISTINCT`); keys, int64; the table; free entries, int64; then the outputs: the
    entry of each key, int64, -1 for none; and the index of each new key among the keys, int64.
    """
    return f"""{prelude(int64)}
define internal ptr @slot_of(ptr %table, i64 %slot) alwaysinline {{
  %double = shl i64 %slot, 1
  %at = getelementptr i64, ptr %table, i64 %double
  ret ptr %at
}}

define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
start:{loads(("header", "keys", "table", "free", "numbers", "fresh"))}
  {fields(Header.COUNT, Header.BOUND, Header.SHIFT, Header.DISTINCT)}
  %bits = sub i64 64, %SHIFT
  %slots = shl i64 1, %bits
  %mask = sub i64 %slots, 1
  %last = sub i64 %COUNT, 1
  br label %head
head:
  %i = phi i64 [0, %start], [%next_i, %note]
  %added = phi i64 [0, %start], [%added_after, %note]
  %more = icmp slt i64 %i, %COUNT
  br i1 %more, label %look, label %end
look:
  %later = call i64 @ahead(i64 %i, i64 %last)
  %later_x = call i64 @index(ptr %keys, i64 %later)
  %later_product = mul i64 %later_x, {HASH_FACTOR}
  %later_slot = lshr i64 %later_product, %SHIFT
  %later_at = call ptr @slot_of(ptr %table, i64 %later_slot)
  call void @llvm.prefetch.p0(ptr %later_at, i32 0, i32 3, i32 1)
  %x = call i64 @index(ptr %keys, i64 %i)
  %product = mul i64 %x, {HASH_FACTOR}
  %slot_first = lshr i64 %product, %SHIFT
  br label %probe
probe:
  %slot = phi i64 [%slot_first, %look], [%slot_next, %collide]
  %at_key = call ptr @slot_of(ptr %table, i64 %slot)
  %at_entry = getelementptr i64, ptr %at_key, i64 1
  %entry = load i64, ptr %at_entry
  %is_free = icmp slt i64 %entry, 0
  br i1 %is_free, label %missing, label %compare
compare:
  %y = load i64, ptr %at_key
  %same = icmp eq i64 %x, %y
  br i1 %same, label %note, label %collide
collide:
  %slot_plus = add i64 %slot, 1
  %slot_next = and i64 %slot_plus, %mask
  br label %probe
missing:
  %may_add = icmp slt i64 %added, %BOUND
  br i1 %may_add, label %add, label %note
add:
  %new = call i64 @index(ptr %free, i64 %added)
  store i64 %x, ptr %at_key
  store i64 %new, ptr %at_entry
  %at_fresh = getelementptr i64, ptr %fresh, i64 %added
  store i64 %i, ptr %at_fresh
  %added_plus = add i64 %added, 1
  br label %note
note:
  %number = phi i64 [%entry, %compare], [-1, %missing], [%new, %add]
  %added_after = phi i64 [%added, %compare], [%added, %missing], [%added_plus, %add]
  %at_number = getelementptr i64, ptr %numbers, i64 %i
  store i64 %number, ptr %at_number
  %next_i = add i64 %i, 1
  br label %head
end:
  store i64 %added, ptr %at_DISTINCT
  ret void
}}
"""
