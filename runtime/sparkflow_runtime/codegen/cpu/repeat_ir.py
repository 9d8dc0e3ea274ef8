"""The driver of a loop as LLVM IR, and the encoding of its programs.

A program is a table of int64 numbers: a header, then steps. A step starts with its kind and its
length in numbers; `repeat` has a class for each kind.

The driver's arguments are the program, the pointers and, if it starts a run, the pointers before
the first iteration and the arrays whose addresses go into them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine import entry


class Head(IntEnum):
    """Fields of a program's header; the steps before the first iteration follow it."""

    MAX_TURNS = 0
    TURNS = 1
    IS_DONE = 2
    BEFORE_END = 3  # where the steps of the condition begin
    CONDITION_END = 4  # where the steps of an iteration begin
    STEPS_END = 5
    MOVES_END = 6  # where the steps after the last iteration begin
    AFTER_END = 7
    FLAG = 8
    STEPS = 9


class ListField(IntEnum):
    """Fields of the block of int64 numbers that represents a list, see `Look` and `Put`.

    Attributes:
        ROWS: Address of a table of element addresses, 0 for elements that are not set.
        LENGTH: Number of elements.
        CAPACITY: Maximum number of elements.
        MEMORY: Address of contiguous memory for written elements. ROW_BYTES: Size of an element.
        ZEROS: Address to read from if an element is not set. GROWS: Whether a write past the end
        extends the list. FIRST_LENGTH: Number of elements before the first iteration.
    """

    ROWS = 0
    LENGTH = 1
    CAPACITY = 2
    MEMORY = 3
    ROW_BYTES = 4
    ZEROS = 5
    GROWS = 6
    FIRST_LENGTH = 7


class Kind(IntEnum):
    """Kinds of steps; see the classes of the same names in `repeat`."""

    CALL = 0
    READ = 1
    LOOK = 2
    PUT = 3
    CLEAR = 4
    CHECK = 5
    BRANCH = 6
    JUMP = 7
    REPEAT = 8


CALL_HEAD: Final = 8
"""Offset of the numbers of a call's arrays."""
REPEAT_HEAD: Final = 6
"""Offset of the steps of an inner loop."""
OUT_OF_RANGE: Final = 2  # a value of `Head.IS_DONE` after a failure, like the next three
REFUSED: Final = 3
FULL: Final = 4
LONG: Final = 5
GOES_ON: Final = -1
"""The driver's first size if it continues a run; else that is the number of addresses to set."""
MOST_ARRAYS: Final = 64
"""Maximum number of arrays of a step's kernel."""


def _head(field: Head) -> str:
    return f"""
  %at_{field.name} = getelementptr i64, ptr %program, i64 {field.value}
  %{field.name} = load i64, ptr %at_{field.name}"""


def _turns(most: str, condition: str, turn: str, end: str, then: str, at_most: str) -> str:
    """Returns the blocks of a loop's iterations, up to the block after each one.

    They branch to `over` when the condition no longer holds, and to `failed` when a step fails.

    Args:
        most: Register with the maximum number of iterations.
        condition: Operand with the position at which the condition's steps begin.
        turn: Register with the position at which they end and those of the iteration begin.
        end: Register with the position at which these end.
        then: The block after an iteration's steps, which branches to `turn_test`.
        at_most: The block that is reached at the maximum number of iterations.
    """
    return f"""\
turn_test:
  %turn = phi i64 [0, %start], [%next_turn, %{then}]
  %may = icmp slt i64 %turn, %{most}
  br i1 %may, label %ask, label %{at_most}

ask:
  %asked = call i64 @steps(ptr %program, ptr %pointers, i64 {condition}, i64 %{turn})
  %is_asked = icmp eq i64 %asked, 0
  br i1 %is_asked, label %answered, label %failed

answered:
  %flag_pointer = load ptr, ptr %flag_at
  %flag = load i8, ptr %flag_pointer
  %holds = icmp ne i8 %flag, 0
  br i1 %holds, label %go, label %over

go:
  %gone = call i64 @steps(ptr %program, ptr %pointers, i64 %{turn}, i64 %{end})
  %next_turn = add i64 %turn, 1
  %is_gone = icmp eq i64 %gone, 0
  br i1 %is_gone, label %{then}, label %failed
"""


def _list_fields(*fields: ListField) -> str:
    return "".join(
        f"""
  %at_{field.name} = getelementptr i64, ptr %control, i64 {field.value}
  %{field.name} = load i64, ptr %at_{field.name}"""
        for field in fields
    )


TEXT: Final = f"""{entry.RUN_PART}
define internal i64 @steps(ptr %program, ptr %pointers, i64 %begin, i64 %end) {{
start:
  %arrays = alloca ptr, i64 {MOST_ARRAYS}
  br label %test

test:
  %at = phi i64 [%begin, %start], [%next, %called], [%next, %read_row], [%next, %listed],
    [%next, %check], [%chosen, %branch], [%landed, %jump], [%next, %repeat]
  %more = icmp slt i64 %at, %end
  br i1 %more, label %step, label %done

step:
  %step_at = getelementptr i64, ptr %program, i64 %at
  %kind = load i64, ptr %step_at
  %length_at = getelementptr i64, ptr %step_at, i64 1
  %length = load i64, ptr %length_at
  %next = add i64 %at, %length
  switch i64 %kind, label %list [
    i64 {Kind.CALL.value}, label %gather_start
    i64 {Kind.READ.value}, label %read
    i64 {Kind.CHECK.value}, label %check
    i64 {Kind.BRANCH.value}, label %branch
    i64 {Kind.JUMP.value}, label %jump
    i64 {Kind.REPEAT.value}, label %repeat
  ]

repeat:
  %inner = call i64 @repeat(ptr %program, ptr %pointers, i64 %at)
  %is_over = icmp eq i64 %inner, 0
  br i1 %is_over, label %test, label %stopped

stopped:
  ret i64 %inner

check:
  %failure_number_at = getelementptr i64, ptr %step_at, i64 2
  %failure_number = load i64, ptr %failure_number_at
  %failure_at = getelementptr i64, ptr %pointers, i64 %failure_number
  %failure_pointer = load ptr, ptr %failure_at
  %failure = load i32, ptr %failure_pointer
  %is_fine = icmp eq i32 %failure, 0
  br i1 %is_fine, label %test, label %not_fine

not_fine:
  ret i64 {REFUSED}

branch:
  %choice_number_at = getelementptr i64, ptr %step_at, i64 2
  %choice_number = load i64, ptr %choice_number_at
  %choice_at = getelementptr i64, ptr %pointers, i64 %choice_number
  %choice_pointer = load ptr, ptr %choice_at
  %choice = load i8, ptr %choice_pointer
  %otherwise_at = getelementptr i64, ptr %step_at, i64 3
  %otherwise = load i64, ptr %otherwise_at
  %beyond = add i64 %next, %otherwise
  %is_chosen = icmp ne i8 %choice, 0
  %chosen = select i1 %is_chosen, i64 %next, i64 %beyond
  br label %test

jump:
  %over_at = getelementptr i64, ptr %step_at, i64 2
  %over = load i64, ptr %over_at
  %landed = add i64 %next, %over
  br label %test

read:
  %index_number_at = getelementptr i64, ptr %step_at, i64 2
  %index_number = load i64, ptr %index_number_at
  %stack_number_at = getelementptr i64, ptr %step_at, i64 3
  %stack_number = load i64, ptr %stack_number_at
  %row_bytes_number_at = getelementptr i64, ptr %step_at, i64 4
  %row_bytes_number = load i64, ptr %row_bytes_number_at
  %row_bytes_at = getelementptr i64, ptr %pointers, i64 %row_bytes_number
  %row_bytes = load i64, ptr %row_bytes_at
  %rows_number_at = getelementptr i64, ptr %step_at, i64 5
  %rows_number = load i64, ptr %rows_number_at
  %rows_at = getelementptr i64, ptr %pointers, i64 %rows_number
  %rows = load i64, ptr %rows_at
  %target_number_at = getelementptr i64, ptr %step_at, i64 6
  %target_number = load i64, ptr %target_number_at
  %index_at = getelementptr i64, ptr %pointers, i64 %index_number
  %index_pointer = load ptr, ptr %index_at
  %index32 = load i32, ptr %index_pointer
  %index = sext i32 %index32 to i64
  %is_in_range = icmp ult i64 %index, %rows
  br i1 %is_in_range, label %read_row, label %out_of_range

read_row:
  %offset = mul i64 %index, %row_bytes
  %stack_at = getelementptr i64, ptr %pointers, i64 %stack_number
  %stack = load i64, ptr %stack_at
  %row = add i64 %stack, %offset
  %target_at = getelementptr i64, ptr %pointers, i64 %target_number
  store i64 %row, ptr %target_at
  br label %test

gather_start:
  %body_at = getelementptr i64, ptr %step_at, i64 2
  %body = load ptr, ptr %body_at
  %sizes_at = getelementptr i64, ptr %step_at, i64 3
  %sizes = load ptr, ptr %sizes_at
  %extent_at = getelementptr i64, ptr %step_at, i64 4
  %extent = load i64, ptr %extent_at
  %parts_at = getelementptr i64, ptr %step_at, i64 5
  %parts = load i64, ptr %parts_at
  br label %gather_test

gather_test:
  %i = phi i64 [{CALL_HEAD}, %gather_start], [%next_i, %gather]
  %any = icmp slt i64 %i, %length
  br i1 %any, label %gather, label %gathered

gather:
  %number_at = getelementptr i64, ptr %step_at, i64 %i
  %number = load i64, ptr %number_at
  %pointer_at = getelementptr i64, ptr %pointers, i64 %number
  %pointer = load i64, ptr %pointer_at
  %place = sub i64 %i, {CALL_HEAD}
  %array_at = getelementptr i64, ptr %arrays, i64 %place
  store i64 %pointer, ptr %array_at
  %next_i = add i64 %i, 1
  br label %gather_test

gathered:
  %is_whole = icmp sle i64 %parts, 1
  br i1 %is_whole, label %alone, label %together

alone:
  call void %body(ptr %sizes, ptr %arrays, i64 0, i64 %extent, i64 0)
  br label %called

together:
  call void @share(ptr %step_at, ptr %body, ptr %sizes, ptr %arrays, i64 %extent, i64 %parts)
  br label %called

called:
  br label %test

list:
  %failed = call i64 @access(ptr %step_at, ptr %pointers, i64 %kind)
  %is_refused = icmp ne i64 %failed, 0
  br i1 %is_refused, label %refused, label %listed

listed:
  br label %test

refused:
  ret i64 %failed

done:
  ret i64 0

out_of_range:
  ret i64 {OUT_OF_RANGE}
}}

define internal void @share(
  ptr %step_at, ptr %body, ptr %sizes, ptr %arrays, i64 %extent, i64 %parts
) noinline {{
  %given = alloca %arguments
  %run_at = getelementptr i64, ptr %step_at, i64 6
  %run = load ptr, ptr %run_at
  %pool_at = getelementptr i64, ptr %step_at, i64 7
  %pool = load ptr, ptr %pool_at
  {entry.run_parts("%run", "%pool", "%body", "%sizes", "%arrays", "%extent", "%parts")}
  ret void
}}

define internal i64 @access(ptr %step_at, ptr %pointers, i64 %kind) noinline {{
start:
  %index_number_at = getelementptr i64, ptr %step_at, i64 2
  %index_number = load i64, ptr %index_number_at
  %index_at = getelementptr i64, ptr %pointers, i64 %index_number
  %index_pointer = load ptr, ptr %index_at
  %index32 = load i32, ptr %index_pointer
  %index = sext i32 %index32 to i64
  %control_number_at = getelementptr i64, ptr %step_at, i64 3
  %control_number = load i64, ptr %control_number_at
  %control_at = getelementptr i64, ptr %pointers, i64 %control_number
  %control = load ptr, ptr %control_at
  {_list_fields(*ListField)}
  %rows = inttoptr i64 %ROWS to ptr
  %row_at = getelementptr i64, ptr %rows, i64 %index
  %exists = icmp ult i64 %index, %LENGTH
  switch i64 %kind, label %clear [
    i64 {Kind.LOOK.value}, label %look
    i64 {Kind.PUT.value}, label %put
  ]

look:
  br i1 %exists, label %found, label %refuse

found:
  %row = load i64, ptr %row_at
  %is_unset = icmp eq i64 %row, 0
  %value = select i1 %is_unset, i64 %ZEROS, i64 %row
  br label %set

put:
  %own_offset = mul i64 %index, %ROW_BYTES
  %own = add i64 %MEMORY, %own_offset
  %once_at = getelementptr i64, ptr %step_at, i64 5
  %once = load i64, ptr %once_at
  br i1 %exists, label %look_before, label %beyond

beyond:
  %is_negative = icmp slt i64 %index, 0
  %is_fixed = icmp eq i64 %GROWS, 0
  %never = or i1 %is_negative, %is_fixed
  br i1 %never, label %refuse, label %make_room

make_room:
  %fits = icmp ult i64 %index, %CAPACITY
  br i1 %fits, label %lengthen, label %full

lengthen:
  %longer = add i64 %index, 1
  store i64 %longer, ptr %at_LENGTH
  br label %write

look_before:
  %before = load i64, ptr %row_at
  %was_set = icmp ne i64 %before, 0
  %must_not = icmp ne i64 %once, 0
  %twice = and i1 %was_set, %must_not
  br i1 %twice, label %refuse, label %write

write:
  store i64 %own, ptr %row_at
  br label %set

set:
  %pointer = phi i64 [%value, %found], [%own, %write]
  %target_number_at = getelementptr i64, ptr %step_at, i64 4
  %target_number = load i64, ptr %target_number_at
  %target_at = getelementptr i64, ptr %pointers, i64 %target_number
  store i64 %pointer, ptr %target_at
  ret i64 0

clear:
  %before_first = icmp slt i64 %index, 0
  br i1 %before_first, label %refuse, label %may_clear

may_clear:
  br i1 %exists, label %unset, label %nothing

unset:
  store i64 0, ptr %row_at
  br label %nothing

nothing:
  ret i64 0

refuse:
  ret i64 {REFUSED}

full:
  ret i64 {FULL}
}}

define internal i64 @repeat(ptr %program, ptr %pointers, i64 %at) noinline {{
start:
  %step_at = getelementptr i64, ptr %program, i64 %at
  %length_at = getelementptr i64, ptr %step_at, i64 1
  %length = load i64, ptr %length_at
  %end = add i64 %at, %length
  %flag_number_at = getelementptr i64, ptr %step_at, i64 2
  %flag_number = load i64, ptr %flag_number_at
  %flag_at = getelementptr i64, ptr %pointers, i64 %flag_number
  %most_at = getelementptr i64, ptr %step_at, i64 3
  %most = load i64, ptr %most_at
  %condition = add i64 %at, {REPEAT_HEAD}
  %condition_length_at = getelementptr i64, ptr %step_at, i64 4
  %condition_length = load i64, ptr %condition_length_at
  %turn_steps = add i64 %condition, %condition_length
  %turn_length_at = getelementptr i64, ptr %step_at, i64 5
  %turn_length = load i64, ptr %turn_length_at
  %exchanges = add i64 %turn_steps, %turn_length
  br label %turn_test

{_turns("most", "%condition", "turn_steps", "exchanges", then="exchange_test", at_most="too_long")}

exchange_test:
  %place = phi i64 [%exchanges, %go], [%next_place, %exchange]
  %more = icmp slt i64 %place, %end
  br i1 %more, label %exchange, label %turn_test

exchange:
  %one_number_at = getelementptr i64, ptr %program, i64 %place
  %one_number = load i64, ptr %one_number_at
  %other_number_at = getelementptr i64, ptr %one_number_at, i64 1
  %other_number = load i64, ptr %other_number_at
  %one_at = getelementptr i64, ptr %pointers, i64 %one_number
  %other_at = getelementptr i64, ptr %pointers, i64 %other_number
  %one = load i64, ptr %one_at
  %other = load i64, ptr %other_at
  store i64 %other, ptr %one_at
  store i64 %one, ptr %other_at
  %next_place = add i64 %place, 2
  br label %exchange_test

over:
  ret i64 0

failed:
  %why = phi i64 [%asked, %ask], [%gone, %go]
  ret i64 %why

too_long:
  ret i64 {LONG}
}}

define internal void @point(ptr %sizes, ptr %arrays, ptr %pointers) noinline {{
start:
  %first_at = getelementptr ptr, ptr %arrays, i64 2
  %first = load ptr, ptr %first_at
  %writes = load i64, ptr %sizes
  %count_at = getelementptr i64, ptr %sizes, i64 1
  %count = load i64, ptr %count_at
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %pointers, ptr %first, i64 %bytes, i1 false)
  br label %test

test:
  %i = phi i64 [0, %start], [%next, %write]
  %more = icmp slt i64 %i, %writes
  br i1 %more, label %write, label %done

write:
  %triple = mul i64 %i, 3
  %at = add i64 %triple, 2
  %array_number_at = getelementptr i64, ptr %sizes, i64 %at
  %array_number = load i64, ptr %array_number_at
  %number_at = getelementptr i64, ptr %array_number_at, i64 1
  %number = load i64, ptr %number_at
  %offset_at = getelementptr i64, ptr %array_number_at, i64 2
  %offset = load i64, ptr %offset_at
  %array_at = getelementptr i64, ptr %arrays, i64 %array_number
  %array = load i64, ptr %array_at
  %address = add i64 %array, %offset
  %pointer_at = getelementptr i64, ptr %pointers, i64 %number
  store i64 %address, ptr %pointer_at
  %next = add i64 %i, 1
  br label %test

done:
  ret void
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
enter:
  %program = load ptr, ptr %arrays
  %pointers_at = getelementptr ptr, ptr %arrays, i64 1
  %pointers = load ptr, ptr %pointers_at
  {_head(Head.MAX_TURNS)}
  {_head(Head.BEFORE_END)}
  {_head(Head.CONDITION_END)}
  {_head(Head.STEPS_END)}
  {_head(Head.MOVES_END)}
  {_head(Head.AFTER_END)}
  {_head(Head.FLAG)}
  %given = load i64, ptr %sizes
  %goes_on = icmp eq i64 %given, {GOES_ON}
  br i1 %goes_on, label %start, label %begin

begin:
  call void @point(ptr %sizes, ptr %arrays, ptr %pointers)
  %begun = call i64 @steps(ptr %program, ptr %pointers, i64 {Head.STEPS.value}, i64 %BEFORE_END)
  br label %start

start:
  %flag_at = getelementptr i64, ptr %pointers, i64 %FLAG
  br label %turn_test

{_turns("MAX_TURNS", "%BEFORE_END", "CONDITION_END", "STEPS_END", "move_test", "interrupted")}

move_test:
  %move = phi i64 [%STEPS_END, %go], [%next_move, %move_one]
  %more_moves = icmp slt i64 %move, %MOVES_END
  br i1 %more_moves, label %move_one, label %turn_test

move_one:
  %move_at = getelementptr i64, ptr %program, i64 %move
  %which = load i64, ptr %move_at
  %add_at = getelementptr i64, ptr %move_at, i64 1
  %add = load i64, ptr %add_at
  %toggle_at = getelementptr i64, ptr %move_at, i64 2
  %toggle = load i64, ptr %toggle_at
  %moving_at = getelementptr i64, ptr %pointers, i64 %which
  %old = load i64, ptr %moving_at
  %sum = add i64 %old, %add
  %new = xor i64 %sum, %toggle
  store i64 %new, ptr %moving_at
  %next_move = add i64 %move, 3
  br label %move_test

over:
  %ended = call i64 @steps(ptr %program, ptr %pointers, i64 %MOVES_END, i64 %AFTER_END)
  %done_at = getelementptr i64, ptr %program, i64 {Head.IS_DONE.value}
  store i64 1, ptr %done_at
  br label %interrupted

failed:
  %why = phi i64 [%asked, %ask], [%gone, %go]
  %failed_at = getelementptr i64, ptr %program, i64 {Head.IS_DONE.value}
  store i64 %why, ptr %failed_at
  br label %interrupted

interrupted:
  %turns_at = getelementptr i64, ptr %program, i64 {Head.TURNS.value}
  store i64 %turn, ptr %turns_at
  ret void
}}
"""
