"""Compiles LLVM assembly to functions that Python can call.

Each distinct module text is compiled once: the machine code is kept in this process and, keyed by a
hash of text and processor, on disk (`object_cache`). It is never unloaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from sparkflow_runtime.codegen.machine import host, object_cache
from sparkflow_runtime.once import Once, once

_FORMAT: Final = 1
"""Part of the key on disk: incremented when the same text compiles to something else."""
SPEED_LEVEL: Final = 2


class Linked:
    """Machine code in this process: addresses of functions by name."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def address(self, name: str) -> int:
        """Returns the address of a function."""
        return int(self._library[name])


@once
def _disk() -> object_cache.ObjectCache:
    return object_cache.ObjectCache(object_cache.default_folder(os.environ))


_linked: Once[str, Linked] = Once()
"""Serialises compilation, as LLVM's contexts require."""


def link(text: str, names: tuple[str, ...], is_tidy: bool = False) -> Linked:
    """Returns the machine code of a module, from this process, from disk, or compiled now.

    Args:
        text: LLVM assembly without a target.
        names: The functions whose addresses are wanted.
        is_tidy: See `native.body`.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    return link_described((text,), lambda: text, names, is_tidy)


def link_described(
    description: Sequence[str], write: Callable[[], str], names: tuple[str, ...], is_tidy: bool
) -> Linked:
    """As `link`, for text that is generated only on a cache miss; `description` identifies it."""
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
    return bytes(here.machine.emit_object(optimised(text, here, is_tidy)))


def optimised(text: str, here: host.Host, is_tidy: bool) -> Any:
    """Parses and optimises a module for a processor, which need not be this one.

    Args:
        text: See `link`.
        here: The target processor.
        is_tidy: See `native.body`.
    """
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(f'target triple = "{here.triple}"\n{text}')
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=SPEED_LEVEL)
    tuning.loop_vectorization = False  # no auto-vectorisation: vectors are explicit
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
    return module


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
