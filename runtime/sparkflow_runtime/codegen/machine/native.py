"""From LLVM's assembly language to functions that Python calls.

A module's text is compiled once per content: the machine code is kept in this process and, by a
hash of text and processor, on disk (`object_cache`). It is never unloaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from sparkflow_runtime.codegen.machine import entry, host, object_cache
from sparkflow_runtime.codegen.machine.host import available
from sparkflow_runtime.once import Once, once

__all__ = ["Body", "available", "body", "described_body", "link"]

_FORMAT: Final = 1
"""Part of the key on disk: raised when what is compiled from the same text changes."""
SPEED_LEVEL: Final = 2


class Linked:
    """Machine code in this process: addresses of functions by name."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def address(self, name: str) -> int:
        """Where a function is."""
        return int(self._library[name])


class Body:
    """Compiled code that works on arrays; made by `body`."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._address = linked.address("body")

    def bind(
        self,
        sizes: Sequence[int],
        counts: Sequence[int],
        extent: int,
        threads: int = 1,
        releases_gil: bool = False,
    ) -> Callable[..., bool]:
        """A function of as many numpy arrays as there are counts.

        It runs the body and returns True; or does nothing and returns False where an argument is
        not exactly a numpy array, not contiguous, or has not the number of elements it is to have.
        That the dtypes are right is the promise of whoever calls.

        Args:
            sizes: Numbers for the body.
            counts: Elements per array; `entry.NOT_COUNTED` for arrays that are not looked at.
            extent: The outermost loop goes from 0 to here.
            threads: The loop is split in so many parts, which run at once.
            releases_gil: Whether other Python threads may run meanwhile.
        """
        pool = (0, 0)
        if threads > 1:
            from sparkflow_runtime.codegen.machine import threads as pools

            pool = pools.pool_addresses()
        return _entry().bind(self._address, sizes, counts, extent, threads, pool, releases_gil)


@once
def body(text: str, is_tidy: bool = False) -> Body:
    """Compiles a module that defines `body`, see the package's documentation.

    Args:
        text: LLVM assembly without a target. It defines
            `void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part)`.
        is_tidy: Whether nothing in it is computed twice or inside of a loop that could be outside:
            it takes a few light passes then instead of LLVM's usual ones, and half the time.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    return Body(link(text, ("body",), is_tidy))


def described_body(description: str, write: Callable[[], str], is_tidy: bool = False) -> Body:
    """As `body`, for text that takes time to write: it is written only where nothing was compiled.

    Args:
        description: Tells it from every other text that this version of the package writes.
        write: Gives the text.
        is_tidy: See `body`.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    parts = (_version_of_generators(), description)
    return Body(_link(parts, write, ("body",), is_tidy))


@once
def _version_of_generators() -> str:
    """Changes with every change of what writes text."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


@once
def _entry() -> entry.Entry:
    return entry.Entry(link(entry.TEXT, ("entry",)).address("entry"))


@once
def _disk() -> object_cache.ObjectCache:
    return object_cache.ObjectCache(object_cache.default_folder(os.environ))


_linked: Once[str, Linked] = Once()
"""One thread makes one at a time, as LLVM's contexts demand."""


def link(text: str, names: tuple[str, ...], is_tidy: bool = False) -> Linked:
    """The machine code of a module, from this process, from disk, or compiled now.

    Args:
        text: LLVM assembly without a target.
        names: The functions whose addresses are wanted.
        is_tidy: See `body`.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    return _link((text,), lambda: text, names, is_tidy)


def _link(
    description: Sequence[str], write: Callable[[], str], names: tuple[str, ...], is_tidy: bool
) -> Linked:
    here = host.host()
    passes = "tidy" if is_tidy else str(SPEED_LEVEL)
    parts = (str(_FORMAT), passes, _llvm_version(), here.triple, here.cpu, here.features)
    key = hashlib.sha256("\n".join((*parts, *description)).encode()).hexdigest()

    def make() -> Linked:
        code = _disk().load(key)
        if code is None:
            code = _compile(write(), here, is_tidy)
            _disk().store(key, code)
        return _load(key, code, names)

    return _linked.get(key, make)


def _llvm_version() -> str:
    import llvmlite

    return str(llvmlite.__version__)


def _compile(text: str, here: host.Host, is_tidy: bool) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(f'target triple = "{here.triple}"\n{text}')
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=SPEED_LEVEL)
    tuning.loop_vectorization = False  # what is to be vectors is written as vectors
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(here.machine, tuning)
    if is_tidy:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)
    return bytes(here.machine.emit_object(module))


@once
def _linker() -> Any:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler(host.host().machine)


def _load(key: str, code: bytes, names: tuple[str, ...]) -> Linked:
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in names:
        builder.export_symbol(name)
    return Linked(builder.link(_linker(), key))
