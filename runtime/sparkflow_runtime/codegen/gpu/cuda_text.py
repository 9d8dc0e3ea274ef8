"""The CUDA C of one stage: parameters, positions, loads, arithmetic, stores.

The arguments of a stage's function are its arrays, then the sizes of its groups of dimensions
(`n0`, `n1`, ...), and the number of parts if it is `partial`; see `cuda` for its launch. One of
kind `rows` is written twice: for rows of any length, which each pass reads again, and for rows that
a block can keep in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sparkflow_runtime.codegen.gpu.cuda_expressions import (
    TYPES,
    arithmetic,
    cast,
    literal,
    reduction,
    start_of,
)
from sparkflow_runtime.codegen.gpu.cuda_stages import Stage, instruction_of
from sparkflow_runtime.codegen.ir.kernel import REDUCTIONS
from sparkflow_runtime.dtypes import DType

WARP: Final = 32
PACK: Final = 4
"""Adjacent elements that a thread processes at once."""
KEEPING_THREADS: Final = 512
"""Maximum threads of a block that keeps a row: each may have 128 registers."""
_KEPT_WORDS: Final = 32
"""Maximum registers per thread that keep its share of a row..."""
_MOST_KEPT: Final = 16
"""...and maximum columns in that share."""
_COSTLY: Final = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc"),
        *("exp", "expm1", "log", "log1p", "pow", "sin", "sinh", "tan", "tanh"),
    )
)
"""Functions whose results are kept rather than recomputed."""
COLUMN_ROWS: Final = 8
"""Threads that share a column in a block of a reduction over leading dimensions."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """One pass over a row.

    Attributes:
        made: The reductions it computes.
        stored: Values and the arrays they are written to.
        ready: The values that are computed once per row, before it.
    """

    made: Sequence[int]
    stored: Sequence[tuple[int, int]]
    ready: frozenset[int]


class StageText:
    """Writes the function of one stage.

    Args:
        stage: The stage.
        name: Its name in the source.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.kernel = stage.kernel
        self.inputs = len(self.kernel.inputs)
        self.loads = stage.loads
        self.positions = {g: f"x{g}" for g in range(len(stage.groups))}
        self.linear: dict[tuple[bool, ...], str] = {}
        self.lines: list[str] = []
        self.indent = 1
        self.keeping = False
        self.kept: list[int] = []
        self.in_registers: set[int] = set()

    @property
    def arrays(self) -> tuple[int, ...]:
        """The array arguments of the function, in order."""
        written = [array for _, array in (*self.stage.stores, *self.stage.reduced)]
        return (*self.loads.values(), *written)

    @cached_property
    def kept_columns(self) -> int:
        """Number of columns of a row that a thread can keep; 0 if it cannot or need not."""
        if self.stage.kind != "rows":
            return 0
        values = self._worth_keeping
        words = sum(-(-self.kernel.value_dtypes[value].size // 4) for value in values)
        columns = _KEPT_WORDS // words if words else 0
        return min(1 << (columns.bit_length() - 1), _MOST_KEPT) if columns >= 4 else 0

    @property
    def keeping_name(self) -> str:
        """Name of the function for rows that a block can keep, if `kept_columns` is not 0."""
        return f"{self.name}_kept"

    def write(self) -> str:
        """Returns the CUDA C of the function, and of `keeping_name` if that exists."""
        written = [self._write(self.name)]
        if self.kept_columns:
            self.lines, self.linear, self.keeping = [], {}, True
            written.append(self._write(self.keeping_name))
        return "\n".join(written)

    def _write(self, name: str) -> str:
        {"elementwise": self._elementwise, "rows": self._rows, "partial": self._partial}[
            self.stage.kind
        ]()
        restrict = "" if self.kernel.in_place else " __restrict__"
        parameters = [
            f"const {self._type(value)}*{restrict} a{array}" for value, array in self.loads.items()
        ]
        parameters += [
            f"{self._type(value)}*{restrict} a{array}"
            for value, array in (*self.stage.stores, *self.stage.reduced)
        ]
        parameters += [f"long long size{g}" for g in self.positions]
        if self.stage.kind == "partial":
            parameters.append("long long parts")
        sizes = [f"    const index_t n{g} = (index_t)size{g};" for g in self.positions]
        bounds = f" __launch_bounds__({KEEPING_THREADS})" if self.keeping else ""
        head = f'extern "C" __global__{bounds} void {name}({", ".join(parameters)}) {{'
        return "\n".join([head, *sizes, *self.lines, "}"])

    # ------------------------------------------------------------------------------ elementwise

    def _elementwise(self) -> None:
        groups = len(self.stage.groups)
        everything = (True,) * groups
        self.linear[everything] = "i"
        self._line(f"const index_t n = {_product(f'n{g}' for g in range(groups))};")
        packed = [v for v in self.loads if groups and self.stage.varies(v)[-1]]
        arrays = [self.loads[v] for v in packed] + [array for _, array in self.stage.stores]
        aligned = " | ".join(f"(size_t)a{array}" for array in arrays)
        rows_fit = f"n{groups - 1} % {PACK} == 0" if groups > 1 else "true"
        self._line(f"const bool packs = {rows_fit} && (({aligned}) & 15) == 0;")
        self._line(f"index_t i = (blockIdx.x * (index_t)blockDim.x + threadIdx.x) * {PACK};")
        self._line("index_t step = 1;")
        if groups:
            self._open("if (packs)")
            self._open(f"if (i + {PACK} <= n)")
            self._packs(packed)
            self._line("return;")
            self._close()
            self._close()
            self._open("else")
            self._line(f"i = blockIdx.x * (index_t)blockDim.x * {PACK} + threadIdx.x;")
            self._line("step = blockDim.x;")
            self._close()
        self._open(f"for (int e = 0; e < {PACK} && i < n; ++e, i += step)")
        self._decode("i", range(groups))
        self._load(self.loads)
        self._compute(self.stage.values)
        for value, array in self.stage.stores:
            self._line(f"a{array}[i] = v{value};")
        self._close()

    def _packs(self, packed: Sequence[int]) -> None:
        groups = len(self.stage.groups)
        self._decode("i", range(groups))
        for value in packed:
            kind = f"Pack<{self._type(value)}, {PACK}>"
            address = f"a{self.loads[value]} + {self._offset(value)}"
            self._line(f"const {kind} p{value} = *(const {kind}*)({address});")
        self._load([value for value in self.loads if value not in packed])
        for value, array in self.stage.stores:
            self._line(f"Pack<{self._type(value)}, {PACK}> q{array};")
        self._line("#pragma unroll")
        self._open(f"for (int e = 0; e < {PACK}; ++e)")
        for value in packed:
            self._line(f"const {self._type(value)} v{value} = p{value}.at[e];")
        last = groups - 1
        self.positions[last] = f"(x{last} + e)"
        self._compute(self.stage.values)
        self.positions[last] = f"x{last}"
        for value, array in self.stage.stores:
            self._line(f"q{array}.at[e] = v{value};")
        self._close()
        for value, array in self.stage.stores:
            self._line(f"*(Pack<{self._type(value)}, {PACK}>*)(a{array} + i) = q{array};")

    # ------------------------------------------------------------------------------------- rows

    def _rows(self) -> None:
        inner = self.stage.reduced_groups
        outer = tuple(not flag for flag in inner)
        self.linear = {
            outer: "row",
            inner: "column",
            (True,) * len(inner): "row * columns + column",
        }
        rows = [g for g, flag in enumerate(outer) if flag]
        columns = [g for g, flag in enumerate(inner) if flag]
        self._line(f"const index_t rows = {_product(f'n{g}' for g in rows)};")
        self._line(f"const index_t columns = {_product(f'n{g}' for g in columns)};")
        self._line("const index_t row = blockIdx.x * (index_t)blockDim.y + threadIdx.y;")
        self._line(
            "if (row >= rows) return;  // whole warps: rows share a block only if of one warp"
        )
        self._decode("row", rows)
        whole = [v for v in self.loads if not self._within(v)]
        self._load(whole)
        self.kept = self._worth_keeping if self.keeping else []
        self.in_registers = set()
        for value in self.kept:
            self._line(f"{self._type(value)} kept{value}[{self.kept_columns}];")
        for now, walk in self._walks():
            self._compute(now)
            self._walk(walk, columns)
        for value, array in self.stage.stores:
            if not self._within(value):
                self._line(f"if (threadIdx.x == 0) a{array}[{self._offset(value)}] = v{value};")

    def _walks(self) -> Iterator[tuple[list[int], _Walk]]:
        """Yields the passes over a row, each with the values computed once per row before it."""
        phases = self._phases()
        ready = {value for value in self.loads if not self._within(value)}
        for phase in range(max(phases.values(), default=0) + 1):
            now = [
                value
                for value in self.stage.values
                if value not in ready
                and not self._within(value)
                and not self._reduces(value)
                and phases[value] == phase
            ]
            ready.update(now)
            made = [
                value
                for value in self.stage.values
                if self._reduces(value) and phases[value] == phase + 1
            ]
            stored = [
                (value, array)
                for value, array in self.stage.stores
                if self._within(value) and phases[value] == phase
            ]
            yield now, _Walk(made, stored, frozenset(ready))
            ready.update(made)

    @cached_property
    def _worth_keeping(self) -> list[int]:
        """Expensive or loaded values that vary along the row and that several passes need."""
        costly = self._met_again(
            lambda value: (
                value not in self.loads and instruction_of(self.kernel, value).function in _COSTLY
            ),
            (),
        )
        return sorted({*costly, *self._met_again(lambda value: value in self.loads, costly)})

    def _met_again(self, counts: Callable[[int], bool], kept: Collection[int]) -> list[int]:
        """Returns the values of one kind that several passes need, given those that are kept."""
        met: dict[int, int] = {}
        there: set[int] = set()
        for _, walk in self._walks():
            needed = self._needed(walk, there)
            for value in needed:
                if counts(value) and value not in there:
                    met[value] = met.get(value, 0) + 1
            there.update(value for value in needed if value in kept)
        return [value for value, times in met.items() if times > 1]

    def _walk(self, walk: _Walk, columns: Sequence[int]) -> None:
        """Writes one pass over the row."""
        if not walk.made and not walk.stored:
            return
        needed = self._needed(walk, self.in_registers)
        here = self.in_registers
        if fresh := [v for v in needed if v in self.loads and v in self.kept and v not in here]:
            self._open_walk(columns)  # separately, so that no read waits for the result of another
            for value in fresh:
                self._line(f"kept{value}[e] = a{self.loads[value]}[{self._offset(value)}];")
            self._close()
            self.in_registers.update(fresh)
        for value in walk.made:
            self._start(value)
        self._open_walk(columns)
        for value in needed:
            if value in self.in_registers:
                self._line(f"const {self._type(value)} v{value} = kept{value}[e];")
                continue
            if value in self.loads:
                self._load([value])
                continue
            self._compute([value])
            if value in self.kept:
                self._line(f"kept{value}[e] = v{value};")
                self.in_registers.add(value)
        for value in walk.made:
            self._accumulate(value)
        for value, array in walk.stored:
            self._line(f"a{array}[{self._offset(value)}] = v{value};")
        self._close()
        for value in walk.made:
            self._line(f"const {self._type(value)} v{value} = {self._over_threads(value)};")

    def _phases(self) -> dict[int, int]:
        """Returns the length of the chain of reductions that a value depends on."""
        phases: dict[int, int] = {}
        for value in self.stage.values:
            before = [0] if value in self.loads else [0, *map(phases.get, self._arguments(value))]
            phases[value] = max(p for p in before if p is not None) + self._reduces(value)
        return phases

    def _open_walk(self, columns: Sequence[int]) -> None:
        if self.keeping:
            self._line("#pragma unroll")
            self._open(f"for (int e = 0; e < {self.kept_columns}; ++e)")
            self._line("const index_t column = threadIdx.x + e * (index_t)blockDim.x;")
            self._line("if (column >= columns) break;")
        else:
            self._open("for (index_t column = threadIdx.x; column < columns; column += blockDim.x)")
        self._decode("column", columns)

    def _needed(self, walk: _Walk, there: Collection[int]) -> list[int]:
        """Returns the values that a pass uses per column, without arguments of available ones."""
        found: set[int] = set()
        waiting = [value for value, _ in walk.stored]
        waiting += [argument for value in walk.made for argument in self._arguments(value)]
        while waiting:
            value = waiting.pop()
            if value not in found and value not in walk.ready:
                found.add(value)
                given = value in self.loads or value in there
                waiting += [] if given else self._arguments(value)
        return sorted(found)

    def _within(self, value: int) -> bool:
        """Whether a value varies along the row."""
        varies = self.stage.varies(value)
        return any(a and b for a, b in zip(varies, self.stage.reduced_groups, strict=True))

    def _reduces(self, value: int) -> bool:
        return value not in self.loads and instruction_of(self.kernel, value).function in REDUCTIONS

    # ---------------------------------------------------------------------------------- partial

    def _partial(self) -> None:
        reduced = self.stage.reduced_groups
        keeps = tuple(not flag for flag in reduced)
        self.linear = {keeps: "kept", reduced: "taken"}
        outer = [g for g, flag in enumerate(keeps) if flag]
        inner = [g for g, flag in enumerate(reduced) if flag]
        columns = by_columns(self.stage)
        x, y = ("x", "y") if columns else ("y", "x")
        self._line(f"const index_t all_kept = {_product(f'n{g}' for g in outer)};")
        self._line(f"const index_t all_taken = {_product(f'n{g}' for g in inner)};")
        self._line("const index_t chunk = (all_taken + (index_t)parts - 1) / (index_t)parts;")
        self._line("const index_t begin = blockIdx.y * chunk;")
        self._line("const index_t end = begin + chunk < all_taken ? begin + chunk : all_taken;")
        self._line(f"const index_t kept = blockIdx.x * (index_t)blockDim.{x} + threadIdx.{x};")
        for value, _ in self.stage.reduced:
            self._start(value)
        self._open("if (kept < all_kept)")
        self._decode("kept", outer)
        self._open(
            f"for (index_t taken = begin + threadIdx.{y}; taken < end; taken += blockDim.{y})"
        )
        self._decode("taken", inner)
        self._load(self.loads)
        self._compute([value for value in self.stage.values if value not in self.loads])
        for value, _ in self.stage.reduced:
            self._accumulate(value)
        for value, array in self.stage.stores:
            self._line(f"a{array}[{self._offset(value)}] = v{value};")
        self._close()
        self._close()
        for value, array in self.stage.reduced:
            over = self._over_columns(value) if columns else self._over_threads(value)
            self._line(f"const {self._type(value)} v{value} = {over};")
            self._open(f"if (kept < all_kept && threadIdx.{y} == 0)")
            self._line(f"a{array}[kept * (index_t)parts + blockIdx.y] = v{value};")
            self._close()

    # ------------------------------------------------------------------------------- statements

    def _start(self, value: int) -> None:
        each = instruction_of(self.kernel, value)
        self._line(f"{TYPES[each.dtype]} s{value} = {start_of(each.function, each.dtype)};")

    def _accumulate(self, value: int) -> None:
        each = instruction_of(self.kernel, value)
        (argument,) = each.arguments
        element = cast(f"v{argument}", self.kernel.value_dtypes[argument], each.dtype)
        taken = reduction(each.function, [f"s{value}", f"({element})"], each.dtype)
        self._line(f"s{value} = {taken};")

    def _over_threads(self, value: int) -> str:
        each = instruction_of(self.kernel, value)
        return f"over_threads_{self._helper(each.function, each.dtype)}(s{value})"

    def _over_columns(self, value: int) -> str:
        each = instruction_of(self.kernel, value)
        return f"over_columns_{self._helper(each.function, each.dtype)}(s{value})"

    @staticmethod
    def _helper(function: str, dtype: DType) -> str:
        return f"{function}_{dtype.name}"

    def _load(self, values: Iterable[int]) -> None:
        for value in values:
            kind = self._type(value)
            self._line(f"const {kind} v{value} = a{self.loads[value]}[{self._offset(value)}];")

    def _compute(self, values: Iterable[int]) -> None:
        for value in values:
            if value in self.loads:
                continue
            each = instruction_of(self.kernel, value)
            if each.function == "constant":
                text = literal(each.value, each.dtype)
            elif each.function == "index":
                group = next(
                    g for g, dimensions in enumerate(self.stage.groups) if each.over[dimensions[0]]
                )
                text = f"({TYPES[each.dtype]}){self.positions[group]}"
            else:
                names = [f"v{argument}" for argument in each.arguments]
                given = [self.kernel.value_dtypes[argument] for argument in each.arguments]
                text = arithmetic(each, names, given)
            self._line(f"const {TYPES[each.dtype]} v{value} = {text};")

    def _decode(self, index: str, groups: Sequence[int]) -> None:
        """Emits the positions along some groups, given the linear index of the element in them."""
        if not self._asks_positions():
            return
        rest = index
        for place, group in reversed(list(enumerate(groups))):
            if place == 0:
                self._line(f"const index_t x{group} = {rest};")
                return
            self._line(f"const index_t x{group} = {rest} % n{group};")
            self._line(f"const index_t {index}{group} = {rest} / n{group};")
            rest = f"{index}{group}"

    def _asks_positions(self) -> bool:
        """Whether more than the linear index of an element is needed."""
        touched = [*self.loads, *(value for value, _ in self.stage.stores)]
        varying = [self.stage.varies(value) for value in touched]
        return any(any(each) and each not in self.linear for each in varying) or any(
            value not in self.loads and instruction_of(self.kernel, value).function == "index"
            for value in self.stage.values
        )

    def _offset(self, value: int) -> str:
        varies = self.stage.varies(value)
        if not any(varies):
            return "0"
        if varies in self.linear:
            return self.linear[varies]
        text = ""
        for group, flag in enumerate(varies):
            if flag:
                text = f"({text} * n{group} + x{group})" if text else f"x{group}"
        return text

    def _arguments(self, value: int) -> tuple[int, ...]:
        return instruction_of(self.kernel, value).arguments

    def _type(self, value: int) -> str:
        return TYPES[self.kernel.value_dtypes[value]]

    def _open(self, head: str) -> None:
        self._line(f"{head} {{")
        self.indent += 1

    def _close(self) -> None:
        self.indent -= 1
        self._line("}")

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)


def by_columns(stage: Stage) -> bool:
    """Whether a reduction keeps the last dimension: adjacent elements go to different results."""
    return not stage.reduced_groups[-1]


def helpers(function: str, dtype: DType) -> tuple[str, str]:
    """Returns the functions that reduce across the threads of a block.

    Returns:
        `over_threads`, along x, of one warp or of a whole block: every thread has the result;
        `over_columns`, along y: thread 0 of a column has it.
    """
    kind = TYPES[dtype]
    name = f"{function}_{dtype.name}"
    shuffled = f"({kind})__shfl_xor_sync(0xffffffffu, {'(int)s' if kind == 'bool' else 's'}, d)"
    taken = reduction(function, ["s", "other"], dtype)
    of_shared = reduction(function, ["s", "shared[w]"], dtype)
    of_column = reduction(function, ["s", "shared[y][threadIdx.x]"], dtype)
    over_threads = f"""\
__device__ {kind} over_threads_{name}({kind} s) {{
    for (int d = {WARP // 2}; d > 0; d /= 2) {{
        const {kind} other = {shuffled};
        s = {taken};
    }}
    if (blockDim.x == {WARP}) return s;
    __shared__ {kind} shared[{WARP}];
    __syncthreads();  // the last reduction has been read
    if (threadIdx.x % {WARP} == 0) shared[threadIdx.x / {WARP}] = s;
    __syncthreads();
    s = shared[0];
    for (int w = 1; w < blockDim.x / {WARP}; ++w) s = {of_shared};
    return s;
}}
"""
    over_columns = f"""\
__device__ {kind} over_columns_{name}({kind} s) {{
    __shared__ {kind} shared[{COLUMN_ROWS}][{WARP}];
    __syncthreads();  // the last reduction has been read
    shared[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    for (int y = 1; threadIdx.y == 0 && y < {COLUMN_ROWS}; ++y) s = {of_column};
    return s;
}}
"""
    return over_threads, over_columns


def combining(function: str, dtype: DType, name: str) -> str:
    """Returns the function that combines the partial results of a reduction."""
    kind = TYPES[dtype]
    return f"""\
extern "C" __global__ void {name}(
    const {kind}* parts, {kind}* result, long long kept, long long n) {{
    const index_t k = blockIdx.x * (index_t)blockDim.y + threadIdx.y;
    if (k >= (index_t)kept) return;  // whole warps
    {kind} s = {start_of(function, dtype)};
    for (index_t p = threadIdx.x; p < (index_t)n; p += {WARP}) {{
        const {kind} other = parts[k * (index_t)n + p];
        s = {reduction(function, ["s", "other"], dtype)};
    }}
    s = over_threads_{function}_{dtype.name}(s);
    if (threadIdx.x == 0) result[k] = s;
}}
"""


def _product(names: Iterable[str]) -> str:
    return " * ".join(names) or "1"
