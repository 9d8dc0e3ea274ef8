"""Compiled bodies that Python calls with arrays, on one thread or on the kernels' thread pool."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparkflow_runtime.codegen.machine import entry
from sparkflow_runtime.codegen.machine.host import available
from sparkflow_runtime.codegen.machine.linking import Linked, link, link_described
from sparkflow_runtime.codegen.machine.threads import pool_addresses
from sparkflow_runtime.once import once

__all__ = ["Body", "available", "body", "described_body", "link", "written_body"]


class Body:
    """Compiled code that works on arrays; created by `body`.

    Attributes:
        address: Address of the code.
    """

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self.address = linked.address("body")

    def bind(
        self,
        sizes: Sequence[int],
        counts: Sequence[int],
        extent: int,
        threads: int = 1,
        releases_gil: bool = False,
    ) -> Callable[..., bool]:
        """Returns a function of one numpy array per count.

        It runs the body and returns True; or does nothing and returns False if an argument is not
        exactly a numpy array, is not contiguous, or has the wrong number of elements. The caller
        guarantees the dtypes.

        Args:
            sizes: Numbers for the body.
            counts: Elements per array; `entry.NOT_COUNTED` for arrays that are not checked.
            extent: The outermost loop goes from 0 to here.
            threads: Number of concurrent parts that the loop is split into.
            releases_gil: Whether the GIL is released.
        """
        pool = (0, 0)
        if threads > 1:
            pool = pool_addresses()
        return _entry().bind(self.address, sizes, counts, extent, threads, pool, releases_gil)


@once
def body(text: str, is_tidy: bool = False) -> Body:
    """Compiles a module that defines `body`.

    Args:
        text: LLVM assembly without a target. It defines
            `void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part)`.
        is_tidy: Whether it has no redundant or loop-invariant computations: a few light passes then
            replace LLVM's usual ones, in half the time.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    return Body(link(text, ("body",), is_tidy))


def described_body(description: str, write: Callable[[], str], is_tidy: bool = False) -> Body:
    """As `body`, for text that takes time to generate: it is generated only on a cache miss.

    Args:
        description: Identifies it among all texts that this version of the package generates.
        write: Returns the text.
        is_tidy: See `body`.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    parts = (_version_of_generators(), description)
    return Body(link_described(parts, write, ("body",), is_tidy))


@once
def written_body(
    write: Callable[..., str], arguments: tuple[Hashable, ...], is_tidy: bool = False
) -> Body:
    """As `body`, for the text that a function generates: it is called only on a cache miss.

    Args:
        write: A function of a module in `codegen`. Its result depends only on the arguments and the
            processor.
        arguments: Arguments of the function, identified by their `repr`.
        is_tidy: See `body`.

    Raises:
        RuntimeError: LLVM refuses the text.
    """
    description = f"{write.__module__}.{write.__qualname__}{arguments!r}"
    return described_body(description, partial(write, *arguments), is_tidy)


@once
def _version_of_generators() -> str:
    """Returns a hash that changes with any module of `codegen`."""
    folder: Any = Path(__file__).parents[1]
    if not folder.is_dir():
        from importlib import resources  # takes 7 ms; for packages in zip files, as of --py-files

        folder = resources.files("sparkflow_runtime.codegen")
    return hashlib.sha256(b"".join(_sources(folder))).hexdigest()


def _sources(folder: Any) -> Iterator[bytes]:
    for each in sorted(folder.iterdir(), key=lambda each: str(each.name)):
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each.read_bytes()


@once
def _entry() -> entry.Entry:
    return entry.Entry(link(entry.TEXT, ("entry",)).address("entry"))
