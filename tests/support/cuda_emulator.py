"""Runs generated CUDA C on the CPU, to check its results without a GPU.

The source is compiled with g++ after a header that defines CUDA's words. The threads of a block
are coroutines that take turns: `__syncthreads` and shuffles yield. A thread that misses a barrier
or a shuffle of its warp is an error, not a wrong result.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.gpu_kernels import Program

COMPILER: Final = shutil.which("g++")
"""The path of g++; None if it is not installed."""

_HEADER: Final = r"""
#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>
#include <ucontext.h>

struct Dim { unsigned x, y; };
static Dim threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {
enum State { READY, AT_BARRIER, DONE };
struct Thread { ucontext_t context; std::vector<char> stack; Dim index; State state;
                long shuffles; long long slot; };
static std::vector<Thread> threads;
static ucontext_t scheduler;
static Thread* current;
static const char* failure;
static void (*entry)(void**);
static void** arguments;

static void give_turn_away() {
    Thread* me = current;
    swapcontext(&me->context, &scheduler);
}
static void body() { entry(arguments); current->state = DONE; give_turn_away(); }

static void run_block() {
    unsigned count = blockDim.x * blockDim.y;
    threads.resize(count);
    for (unsigned i = 0; i < count; ++i) {
        Thread& t = threads[i];
        t.stack.resize(16384);
        t.index = {i % blockDim.x, i / blockDim.x};
        t.state = READY; t.shuffles = 0;
        getcontext(&t.context);
        t.context.uc_stack.ss_sp = t.stack.data();
        t.context.uc_stack.ss_size = t.stack.size();
        t.context.uc_link = nullptr;
        makecontext(&t.context, body, 0);
    }
    for (;;) {
        unsigned done = 0, waiting = 0;
        for (Thread& t : threads) {
            if (t.state == READY) {
                current = &t; threadIdx = t.index;
                swapcontext(&scheduler, &t.context);
                if (failure) return;
            }
            done += t.state == DONE; waiting += t.state == AT_BARRIER;
        }
        if (done == count) return;
        if (waiting && waiting + done == count) {
            if (done) { failure = "some threads left before __syncthreads"; return; }
            for (Thread& t : threads) t.state = READY;
        }
    }
}
template <class... A, size_t... I>
void call(void (*f)(A...), void** given, std::index_sequence<I...>) {
    f(*(typename std::remove_reference<A>::type*)given[I]...);
}
}  // namespace emulator

static void __syncthreads() {
    emulator::current->state = emulator::AT_BARRIER;
    emulator::give_turn_away();
}
template <class T> T __shfl_xor_sync(unsigned, T value, int distance) {
    using namespace emulator;
    Thread* me = current;
    unsigned number = me - threads.data();
    me->slot = 0;
    std::memcpy(&me->slot, &value, sizeof(T));
    ++me->shuffles;
    give_turn_away();
    Thread& peer = threads[number ^ distance];
    if (peer.shuffles != me->shuffles || peer.state != READY)
        failure = "a lane of a warp misses a shuffle";
    T result;
    std::memcpy(&result, &peer.slot, sizeof(T));
    give_turn_away();
    return result;
}
template <class T> T atomicCAS(T* place, T wanted, T value) {  // threads take turns
    T found = *place;
    if (found == wanted) *place = value;
    return found;
}
static unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
static long long __double_as_longlong(double x) {
    long long bits; std::memcpy(&bits, &x, 8); return bits;
}
static float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
static double __longlong_as_double(long long bits) {
    double x; std::memcpy(&x, &bits, 8); return x;
}
#define __global__
#define __device__
#define __shared__ static
#define __restrict__ __restrict
#define __launch_bounds__(most)
"""

_PTX: Final = {
    'asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(element));': (
        "_Float16 half; std::memcpy(&half, &element, 2); number = half;"
    ),
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(number));': (
        "_Float16 half = number; std::memcpy(&element, &half, 2);"
    ),
}
"""PTX instructions without an equivalent in CUDA C, as C++."""

_ENTRY: Final = """
static void enter_{name}(void** given) {{
    emulator::call({name}, given, std::make_index_sequence<{count}>());
}}
extern "C" const char* run_{name}(void** given, const unsigned* shape) {{
    using namespace emulator;
    gridDim = {{shape[0], shape[1]}}; blockDim = {{shape[2], shape[3]}};
    entry = enter_{name}; arguments = given; failure = nullptr;
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {{
            run_block();
            if (failure) return failure;
        }}
    return nullptr;
}}
"""


class CudaEmulator:
    """Runs sources, compiled for the CPU once each. Not safe to share between threads.

    Args:
        folder: The folder for compiled code.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._libraries: dict[str, ctypes.CDLL] = {}

    def run(
        self,
        program: Program,
        sizes: Sequence[int],
        *arrays: np.ndarray[Any, Any],
        wide: bool | None = None,
    ) -> None:
        """Fills the outputs of a program.

        Args:
            program: The program to run.
            sizes: The sizes of the kernel's dimensions.
            *arrays: Its inputs, then its outputs; C-contiguous.
            wide: Which of its sources; None for the one suited to the sizes.

        Raises:
            RuntimeError: The threads of a block or warp do not all reach a barrier or shuffle.
        """
        plan = program.plan(sizes)
        if tuple(array.size for array in arrays) != plan.counts:
            raise ValueError(f"arrays of {plan.counts} elements are needed, not {arrays}")
        left = [np.full(size, 0xAB, np.uint8) for size in plan.left_bytes]
        pointers = [array.ctypes.data for array in (*arrays, *left)]
        source = program.source(plan.wide if wide is None else wide)
        for each in plan.launches:
            arguments = [*[pointers[array] for array in each.arrays], *each.numbers]
            self.launch(source, each.name, each.grid, each.block, arguments)

    def launch(
        self,
        source: str,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[int],
    ) -> None:
        """Runs one function of a source; arguments are addresses and 64-bit integers."""
        values = [ctypes.c_longlong(each) for each in arguments]
        given = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        shape = (ctypes.c_uint * 4)(*grid, *block)
        function = getattr(self._library(source), f"run_{name}")
        function.restype = ctypes.c_char_p
        failure = function(given, shape)
        if failure is not None:
            raise RuntimeError(f"{name}: {failure.decode()}")

    def _library(self, source: str) -> ctypes.CDLL:
        if source not in self._libraries:
            found = re.findall(r"__global__[^;{]*? void (\w+)\(([^)]*)\)", source)
            entries = [_ENTRY.format(name=n, count=p.count(",") + 1) for n, p in found]
            text = "\n".join([source, *entries])
            for instruction, meaning in _PTX.items():
                text = text.replace(instruction, meaning)
            self._libraries[source] = _compiled(text, self._folder)
        return self._libraries[source]


_OPTIONS: Final = ("-O0", "-std=c++17", "-fPIC", "-ffp-contract=off", "-w")


@functools.cache
def _header() -> Path:
    """Precompiles the header included before sources, which takes half of their compile time."""
    folder = tempfile.TemporaryDirectory(prefix="cuda")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "cuda.hpp"
    path.write_text(_HEADER)
    _run("-x", "c++-header", str(path), "-o", f"{path}.gch")
    return path


def _compiled(text: str, folder: Path) -> ctypes.CDLL:
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
    library = path.with_suffix(".so")
    if not library.exists():
        path.write_text(text)
        _run("-shared", "-include", str(_header()), str(path), "-o", str(library))
    return ctypes.CDLL(str(library.resolve()))


def _run(*arguments: str) -> None:
    if COMPILER is None:
        raise RuntimeError("g++ is needed to run CUDA C on the CPU")
    command = [COMPILER, *_OPTIONS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ refuses {' '.join(arguments)}:\n{done.stderr[:2000]}")
