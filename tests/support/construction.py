"""Constructors that fail half-way, at each of their steps in turn.

A step is a call from our code of something that is not ours: the system, Python's library, gRPC.
In its place an error is raised, once, in the thread that constructs; those that let something go
are left alone, as are those that fail for want of memory only. Which line calls what counts once.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import sparkflow
import sparkflow_runtime

Step = tuple[str, int, str]
"""A file, a line, and what is called there."""

_OURS: Final = tuple(
    f"{Path(each.__file__ or '').parent}/" for each in (sparkflow, sparkflow_runtime)
)
_LETS_GO: Final = re.compile(
    "close|release|stop|shutdown|unregister|forget|kill|wait|join|terminate|discard|rmtree|remove"
    "|communicate|unlink|rmdir|set$|notify|cancel|detach|enter$|exit$"
)
"""Names of what lets go of something, or ends it; what enters a block is there already."""
_ALWAYS_WORKS: Final = re.compile(
    r"(contextlib|weakref|_weakrefset|<string>):|threading:(?!start)|.*:(fileno|setblocking)$"
)
"""What fails for want of memory at most, by module and name; dataclasses are of "<string>"."""


class Interrupted(BaseException):
    """As Ctrl-C: no OSError, and no Exception."""


def steps_of(make: Callable[[], Any]) -> list[Step]:
    """The steps that a construction makes in this thread, each once."""
    found: dict[Step, None] = {}
    with _watched(lambda step: found.setdefault(step)):
        make()
    return list(found)


@contextmanager
def failing(at: Step, error: BaseException) -> Iterator[None]:
    """Raises an error in place of a step that this thread makes, the first time."""

    def fail(step: Step) -> None:
        if step == at:
            sys.setprofile(None)
            raise error

    with _watched(fail):
        yield


@contextmanager
def _watched(on_step: Callable[[Step], Any]) -> Iterator[None]:
    # Python calls them wherever it collects garbage: hypothesis has one.
    of_the_collector = {getattr(each, "__code__", None) for each in gc.callbacks}

    def look(frame: FrameType, event: str, arg: Any) -> None:
        if frame.f_code in of_the_collector:
            return
        if event == "c_call" and _may_fail(arg):
            caller, name, module = frame, arg.__name__, ""
        elif event == "call" and frame.f_back is not None and not _is_ours(frame):
            caller, name = frame.f_back, frame.f_code.co_name
            module = Path(frame.f_code.co_filename).stem
        else:
            return
        is_step = not _LETS_GO.match(name.strip("_")) and not _ALWAYS_WORKS.match(
            f"{module}:{name}"
        )
        if is_step and _is_ours(caller):
            on_step((caller.f_code.co_filename, caller.f_lineno, name))

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def _may_fail(called: Any) -> bool:
    """Whether a function of C may be refused something by the system, and not only memory."""
    if called is open:
        return True
    owner = getattr(called, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        return called.__module__ not in (None, "builtins", "_thread", "numpy")
    return type(owner).__module__ != "builtins" and not isinstance(owner, type)


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_OURS) and frame.f_code.co_name != "<module>"
