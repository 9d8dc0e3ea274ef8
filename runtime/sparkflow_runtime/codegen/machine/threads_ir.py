"""The thread pool as LLVM IR, which `threads` compiles.

A job is a function and a number of parts. One word holds the job's number, its number of parts and
the next part, so that one compare-and-exchange claims a part of exactly the job that was read. An
idle thread spins on the word for a while, then yields its processor `YIELDS` times, and then sleeps
until the word's upper half, the job's number, changes (a futex). The caller runs parts, too, so a
worker that is late or descheduled delays nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from sparkflow_runtime.codegen.machine import denormals


class Place(IntEnum):
    """Byte offsets in the control block; different threads write to different cache lines.

    Attributes:
        WORD: Job number (32 bits), parts (16), next part (16).
        JOB: The job number, the word's upper half (little endian).
        FUNCTION, ARGUMENT: The job's function and its argument.
        REMAINING: Parts that are not finished yet.
        SLEEPERS: Number of sleeping workers.
        LOCK: 1 while a caller holds the pool.
        WAITING: 1 while that caller is asleep.
        STOP: 1 when workers should exit.
        WORKERS: Number of workers.
        SPINS: Number of spins before sleeping.
    """

    WORD = 0
    JOB = 4
    FUNCTION = 64
    ARGUMENT = 72
    REMAINING = 128
    SLEEPERS = 192
    LOCK = 256
    WAITING = 320
    STOP = 384
    WORKERS = 388
    SPINS = 392


SIZE: Final = 448
"""Bytes of the control block, which is aligned to lines of 64."""
YIELDS: Final = 300
"""How often an idle worker yields its processor before it sleeps: for about 0.1 ms if no other
thread wants it. A step of a small network has gaps of that length, and waking takes as long; if
processes share the processors, yielding costs less than spinning or sleeping for that time."""
MAX_PARTS: Final = 0xFFFF
"""Maximum parts that fit in the word; larger jobs run sequentially."""

FUTEX_NUMBERS: Final = {"x86_64": 202, "aarch64": 98}
"""The system call's number by processor, as `platform.machine` names it."""
_PAUSES: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    # An instruction barrier: `yield` takes no time at all on most of these processors.
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE within one process
_EVERYBODY = 0x7FFFFFFF


def text(machine: str) -> str:
    """Returns the module: `worker`, `run`, `stop` and `spin`, see the definitions.

    Args:
        machine: A key of `FUTEX_NUMBERS`.
    """
    declaration, pause = _PAUSES[machine]
    futex = f"call i64 (i64, ...) @syscall(i64 {FUTEX_NUMBERS[machine]}"
    return f"""
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
{declaration}
{denormals.text(machine)}
{_RUN_ALONE}
{_take_parts()}
{_worker(pause, futex)}
{_run(pause, futex)}
{_stop(futex)}
{_spin(pause)}
"""


_RUN_ALONE: Final = """
define void @run_alone(ptr %function, ptr %argument, i32 %parts) {
start:
  %count = sext i32 %parts to i64
  %empty = icmp slt i64 %count, 1
  br i1 %empty, label %done, label %each
each:
  %part = phi i64 [0, %start], [%following, %each]
  call void %function(ptr %argument, i64 %part)
  %following = add i64 %part, 1
  %more = icmp slt i64 %following, %count
  br i1 %more, label %each, label %done
done:
  ret void
}
"""
SERIAL_TEXT: Final = f"""{_RUN_ALONE}
define void @run(ptr %control, ptr %function, ptr %argument, i32 %parts) {{
  call void @run_alone(ptr %function, ptr %argument, i32 %parts)
  ret void
}}
"""
"""`run` without workers: all parts sequentially."""


def _at(*places: Place) -> str:
    return "".join(
        f"\n  %at_{place.name} = getelementptr i8, ptr %control, i64 {place.value}"
        for place in places
    )


def _take_parts() -> str:
    """Runs parts of the current job while any are left; returns the last word seen.

    Function and argument are read before the exchange, which succeeds only if the job was still the
    same; that job cannot end before the part claimed here has run.
    """
    return f"""
define internal i64 @take_parts(ptr %control, ptr %last_of_all) {{
start:{_at(Place.FUNCTION, Place.ARGUMENT, Place.REMAINING)}
  store i1 false, ptr %last_of_all
  br label %look
look:
  %fresh = load atomic i64, ptr %control acquire, align 64
  br label %judge
judge:
  %word = phi i64 [%fresh, %look], [%seen, %take]
  %next = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %parts = and i64 %shifted, 65535
  %any = icmp ult i64 %next, %parts
  br i1 %any, label %take, label %done
take:
  %function = load atomic ptr, ptr %at_FUNCTION monotonic, align 8
  %argument = load atomic ptr, ptr %at_ARGUMENT monotonic, align 8
  %taken = add i64 %word, 1
  %exchange = cmpxchg ptr %control, i64 %word, i64 %taken acq_rel acquire, align 64
  %seen = extractvalue {{ i64, i1 }} %exchange, 0
  %success = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %success, label %run, label %judge
run:
  call void %function(ptr %argument, i64 %next)
  %before = atomicrmw sub ptr %at_REMAINING, i32 1 seq_cst, align 64
  %last = icmp eq i32 %before, 1
  store i1 %last, ptr %last_of_all
  br label %look
done:
  ret i64 %word
}}"""


def _worker(pause: str, futex: str) -> str:
    """`ptr worker(ptr control)`: a thread's main loop, until it is told to stop."""
    return f"""
define ptr @worker(ptr %control) {{
start:{_at(Place.JOB, Place.REMAINING, Place.SLEEPERS, Place.WAITING, Place.STOP, Place.SPINS)}
  %last_of_all = alloca i1
  %spins = load i64, ptr %at_SPINS
  call i64 @flush_denormals()
  br label %work
work:
  %word = call i64 @take_parts(ptr %control, ptr %last_of_all)
  %last = load i1, ptr %last_of_all
  br i1 %last, label %finished, label %idle
finished:
  %waiting = load atomic i32, ptr %at_WAITING seq_cst, align 64
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %wake, label %idle
wake:
  {futex}, ptr %at_REMAINING, i64 {_WAKE}, i64 1, ptr null, ptr null, i64 0)
  br label %idle
idle:
  %stop = load atomic i32, ptr %at_STOP acquire, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %end, label %spin
spin:
  %left = phi i64 [%spins, %idle], [%fewer, %again]
  %now = load atomic i64, ptr %control acquire, align 64
  %changed = icmp ne i64 %now, %word
  br i1 %changed, label %work, label %again
again:
  {pause}
  %fewer = sub i64 %left, 1
  %tired = icmp sle i64 %fewer, 0
  br i1 %tired, label %courteous, label %spin
courteous:
  %yields = phi i64 [{YIELDS}, %again], [%fewer_yields, %yield]
  %latest = load atomic i64, ptr %control acquire, align 64
  %different = icmp ne i64 %latest, %word
  br i1 %different, label %work, label %patient
patient:
  %out_of_patience = icmp eq i64 %yields, 0
  br i1 %out_of_patience, label %sleep, label %yield
yield:
  call i32 @sched_yield()
  %fewer_yields = sub i64 %yields, 1
  br label %courteous
sleep:
  %upper = lshr i64 %word, 32
  %job = trunc i64 %upper to i32
  atomicrmw add ptr %at_SLEEPERS, i32 1 seq_cst, align 64
  {futex}, ptr %at_JOB, i64 {_WAIT}, i32 %job, ptr null, ptr null, i64 0)
  atomicrmw sub ptr %at_SLEEPERS, i32 1 seq_cst, align 64
  br label %work
end:
  ret ptr null
}}"""


def _run(pause: str, futex: str) -> str:
    """`void run(ptr control, ptr function, ptr argument, i32 parts)`: runs a job to its end."""
    return f"""
define void @run(ptr %control, ptr %function, ptr %argument, i32 %parts) {{
start:{_at(*(place for place in Place if place not in (Place.WORD, Place.STOP)))}
  %last_of_all = alloca i1
  %workers = load atomic i32, ptr %at_WORKERS monotonic, align 4
  %alone = icmp eq i32 %workers, 0
  %one = icmp slt i32 %parts, 2
  %many = icmp sgt i32 %parts, {MAX_PARTS}
  %few_or_many = or i1 %one, %many
  %not_shared = or i1 %alone, %few_or_many
  br i1 %not_shared, label %serial, label %ask
ask:
  %exchange = cmpxchg ptr %at_LOCK, i32 0, i32 1 acquire monotonic, align 64
  %got = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %got, label %publish, label %serial

publish:
  store atomic ptr %function, ptr %at_FUNCTION monotonic, align 8
  store atomic ptr %argument, ptr %at_ARGUMENT monotonic, align 8
  %others = sub i32 %parts, 1
  store atomic i32 %others, ptr %at_REMAINING monotonic, align 64
  %old = load atomic i64, ptr %control monotonic, align 64
  %old_job = lshr i64 %old, 32
  %job = add i64 %old_job, 1
  %upper = shl i64 %job, 32
  %wide = zext i32 %parts to i64
  %middle = shl i64 %wide, 16
  %both = or i64 %upper, %middle
  %word = or i64 %both, 1
  store atomic i64 %word, ptr %control seq_cst, align 64
  %sleepers = load atomic i32, ptr %at_SLEEPERS seq_cst, align 64
  %some_asleep = icmp ne i32 %sleepers, 0
  br i1 %some_asleep, label %wake, label %mine
wake:
  {futex}, ptr %at_JOB, i64 {_WAKE}, i32 %others, ptr null, ptr null, i64 0)
  br label %mine

mine:
  call void %function(ptr %argument, i64 0)
  call i64 @take_parts(ptr %control, ptr %last_of_all)
  %spins = load i64, ptr %at_SPINS
  br label %wait
wait:
  %left = phi i64 [%spins, %mine], [%fewer, %again], [0, %awake]
  %remaining = load atomic i32, ptr %at_REMAINING seq_cst, align 64
  %finished = icmp eq i32 %remaining, 0
  br i1 %finished, label %release, label %busy
busy:
  %tired = icmp sle i64 %left, 0
  br i1 %tired, label %sleep, label %again
again:
  {pause}
  %fewer = sub i64 %left, 1
  br label %wait
sleep:
  store atomic i32 1, ptr %at_WAITING seq_cst, align 64
  {futex}, ptr %at_REMAINING, i64 {_WAIT}, i32 %remaining, ptr null, ptr null, i64 0)
  br label %awake
awake:
  br label %wait
release:
  store atomic i32 0, ptr %at_WAITING monotonic, align 64
  store atomic i32 0, ptr %at_LOCK release, align 64
  ret void

serial:
  call void @run_alone(ptr %function, ptr %argument, i32 %parts)
  ret void
}}"""


def _stop(futex: str) -> str:
    """`void stop(ptr control)`: waits for the running job, then tells all workers to exit."""
    return f"""
define void @stop(ptr %control) {{
start:{_at(Place.JOB, Place.LOCK, Place.STOP, Place.WORKERS)}
  br label %ask
ask:
  %exchange = cmpxchg ptr %at_LOCK, i32 0, i32 1 acquire monotonic, align 64
  %got = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %got, label %tell, label %later
later:
  call i32 @sched_yield()
  br label %ask
tell:
  store atomic i32 0, ptr %at_WORKERS seq_cst, align 4
  store atomic i32 1, ptr %at_STOP seq_cst, align 4
  %old = load atomic i64, ptr %control monotonic, align 64
  %old_job = lshr i64 %old, 32
  %job = add i64 %old_job, 1
  %word = shl i64 %job, 32
  store atomic i64 %word, ptr %control seq_cst, align 64
  {futex}, ptr %at_JOB, i64 {_WAKE}, i64 {_EVERYBODY}, ptr null, ptr null, i64 0)
  store atomic i32 0, ptr %at_LOCK release, align 64
  ret void
}}"""


def _spin(pause: str) -> str:
    """`void spin(ptr control, i64 times)`: spins, to measure how long that takes."""
    return f"""
define void @spin(ptr %control, i64 %times) {{
start:
  br label %again
again:
  %left = phi i64 [%times, %start], [%fewer, %again]
  %now = load atomic i64, ptr %control acquire, align 64
  {pause}
  %fewer = sub i64 %left, 1
  %tired = icmp sle i64 %fewer, 0
  br i1 %tired, label %end, label %again
end:
  ret void
}}"""
