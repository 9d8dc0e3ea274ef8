"""A loop over kernels in machine code: turn after turn without a word of Python.

What a loop does is a table of int64 numbers, the program. Its steps call the bodies of kernels with
pointers from a second table. After every turn some of these move on to the next row of a stack, or
change over between two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.once import once


class _Head(IntEnum):
    """Places at the beginning of a program."""

    MAX_TURNS = 0
    TURNS = 1
    IS_DONE = 2
    CONDITION_END = 3  # where the steps of the condition end, and those of the turn begin
    STEPS_END = 4
    MOVES_END = 5
    FLAG = 6
    STEPS = 7


_CALL, _READ = 0, 1
_CALL_HEAD: Final = 8
"""Where the numbers of a call's arrays begin."""
_OUT_OF_RANGE: Final = 2  # where it would say that the loop is done
MOST_ARRAYS: Final = 64
"""So many arrays the kernel of a step has at most."""


@dataclass(frozen=True, slots=True)
class Call:
    """A step that runs a kernel.

    Attributes:
        kernel: Bound, see `native.Body.bind`.
        arrays: Numbers of the pointers to its arrays.
    """

    kernel: Callable[..., bool]
    arrays: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A step that has a pointer point to a row of a stack.

    Attributes:
        index: Number of the pointer to the row's number, an int32.
        stack: Number of the pointer to the stack, which does not move.
        row_bytes: Number of the pointer that is the size of a row instead.
        rows: Number of the pointer that is how many rows there are instead.
        target: Number of the pointer that is set.
    """

    index: int
    stack: int
    row_bytes: int
    rows: int
    target: int


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of a pointer after a turn: `(pointer + add) ^ toggle`.

    Attributes:
        pointer: Its number.
        add: Bytes.
        toggle: Bits that change.
    """

    pointer: int
    add: int = 0
    toggle: int = 0


class Loop:
    """The steps of a loop. For one thread at a time: its kernels may have memory of their own.

    Args:
        condition: Steps that find out whether there is another turn.
        steps: Those of the turn.
        flag: Number of the pointer to the condition's result, a bool.
    """

    def __init__(
        self, condition: Sequence[Call | Read], steps: Sequence[Call | Read], flag: int
    ) -> None:
        self._kernels = [step.kernel for step in (*condition, *steps) if isinstance(step, Call)]
        words = [0] * _Head.STEPS
        for step in condition:
            words += _words(step)
        words[_Head.CONDITION_END] = len(words)
        for step in steps:
            words += _words(step)
        words[_Head.STEPS_END] = len(words)
        words[_Head.FLAG] = flag
        self._words = words

    def run(
        self, pointers: np.ndarray[Any, Any], moves: Sequence[Move], max_turns: int
    ) -> tuple[int, bool]:
        """Runs turns until the condition does not hold.

        Other Python threads run meanwhile.

        Args:
            pointers: int64, the addresses at the next turn; changed to those of the turn after.
            moves: What becomes of them after each turn.
            max_turns: At most so many.

        Returns:
            The number of turns, and whether the condition did not hold any more.

        Raises:
            IndexError: A stack has no such row.
        """
        words = [
            *self._words,
            *(n for move in moves for n in (move.pointer, move.add, move.toggle)),
        ]
        words[_Head.MOVES_END] = len(words)
        words[_Head.MAX_TURNS] = max_turns
        program = np.array(words, np.int64)
        _driver()(program, pointers)
        if program[_Head.IS_DONE] == _OUT_OF_RANGE:
            raise IndexError("A loop reads a row that its stack does not have")
        return int(program[_Head.TURNS]), bool(program[_Head.IS_DONE])


def _words(step: Call | Read) -> list[int]:
    if isinstance(step, Read):
        return [_READ, 7, step.index, step.stack, step.row_bytes, step.rows, step.target]
    assert len(step.arrays) <= MOST_ARRAYS
    kernel = entry.bound(step.kernel)
    numbers = (kernel.body, kernel.sizes, kernel.extent)
    together = (kernel.parts, kernel.run_parts, kernel.pool)
    return [_CALL, _CALL_HEAD + len(step.arrays), *numbers, *together, *step.arrays]


@once
def _driver() -> Callable[..., bool]:
    counts = [entry.NOT_COUNTED, entry.NOT_COUNTED]
    return native.body(_TEXT).bind([], counts, 1, releases_gil=True)


def _head(field: _Head) -> str:
    return f"""
  %at_{field.name} = getelementptr i64, ptr %program, i64 {field.value}
  %{field.name} = load i64, ptr %at_{field.name}"""


_TEXT: Final = f"""{entry.RUN_PART}
define internal i1 @steps(ptr %program, ptr %pointers, i64 %begin, i64 %end) {{
start:
  %arrays = alloca ptr, i64 {MOST_ARRAYS}
  %given = alloca %arguments
  br label %test

test:
  %at = phi i64 [%begin, %start], [%next, %called], [%next, %read_row]
  %more = icmp slt i64 %at, %end
  br i1 %more, label %step, label %done

step:
  %step_at = getelementptr i64, ptr %program, i64 %at
  %kind = load i64, ptr %step_at
  %length_at = getelementptr i64, ptr %step_at, i64 1
  %length = load i64, ptr %length_at
  %next = add i64 %at, %length
  %is_read = icmp eq i64 %kind, {_READ}
  br i1 %is_read, label %read, label %gather_start

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
  %i = phi i64 [{_CALL_HEAD}, %gather_start], [%next_i, %gather]
  %any = icmp slt i64 %i, %length
  br i1 %any, label %gather, label %gathered

gather:
  %number_at = getelementptr i64, ptr %step_at, i64 %i
  %number = load i64, ptr %number_at
  %pointer_at = getelementptr i64, ptr %pointers, i64 %number
  %pointer = load i64, ptr %pointer_at
  %place = sub i64 %i, {_CALL_HEAD}
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
  %run_at = getelementptr i64, ptr %step_at, i64 6
  %run = load ptr, ptr %run_at
  %pool_at = getelementptr i64, ptr %step_at, i64 7
  %pool = load ptr, ptr %pool_at
  store ptr %body, ptr %given
  %given_sizes = getelementptr %arguments, ptr %given, i32 0, i32 1
  store ptr %sizes, ptr %given_sizes
  %given_arrays = getelementptr %arguments, ptr %given, i32 0, i32 2
  store ptr %arrays, ptr %given_arrays
  %given_extent = getelementptr %arguments, ptr %given, i32 0, i32 3
  store i64 %extent, ptr %given_extent
  %given_parts = getelementptr %arguments, ptr %given, i32 0, i32 4
  store i64 %parts, ptr %given_parts
  %parts32 = trunc i64 %parts to i32
  call void %run(ptr %pool, ptr @run_part, ptr %given, i32 %parts32)
  br label %called

called:
  br label %test

done:
  ret i1 true

out_of_range:
  ret i1 false
}}

define void @body(ptr %no_sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
start:
  %program = load ptr, ptr %arrays
  %pointers_at = getelementptr ptr, ptr %arrays, i64 1
  %pointers = load ptr, ptr %pointers_at
  {_head(_Head.MAX_TURNS)}
  {_head(_Head.CONDITION_END)}
  {_head(_Head.STEPS_END)}
  {_head(_Head.MOVES_END)}
  {_head(_Head.FLAG)}
  %flag_at = getelementptr i64, ptr %pointers, i64 %FLAG
  br label %turn_test

turn_test:
  %turn = phi i64 [0, %start], [%next_turn, %moved]
  %may = icmp slt i64 %turn, %MAX_TURNS
  br i1 %may, label %ask, label %interrupted

ask:
  %asked = call i1 @steps(ptr %program, ptr %pointers, i64 {_Head.STEPS.value}, i64 %CONDITION_END)
  br i1 %asked, label %answered, label %failed

answered:
  %flag_pointer = load ptr, ptr %flag_at
  %flag = load i8, ptr %flag_pointer
  %holds = icmp ne i8 %flag, 0
  br i1 %holds, label %go, label %finished

go:
  %gone = call i1 @steps(ptr %program, ptr %pointers, i64 %CONDITION_END, i64 %STEPS_END)
  br i1 %gone, label %move_test, label %failed

move_test:
  %move = phi i64 [%STEPS_END, %go], [%next_move, %move_one]
  %more_moves = icmp slt i64 %move, %MOVES_END
  br i1 %more_moves, label %move_one, label %moved

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

moved:
  %next_turn = add i64 %turn, 1
  br label %turn_test

finished:
  %done_at = getelementptr i64, ptr %program, i64 {_Head.IS_DONE.value}
  store i64 1, ptr %done_at
  br label %interrupted

failed:
  %failed_at = getelementptr i64, ptr %program, i64 {_Head.IS_DONE.value}
  store i64 {_OUT_OF_RANGE}, ptr %failed_at
  br label %interrupted

interrupted:
  %turns_at = getelementptr i64, ptr %program, i64 {_Head.TURNS.value}
  store i64 %turn, ptr %turns_at
  ret void
}}
"""
