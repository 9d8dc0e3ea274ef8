"""Constructors that fail at each of their steps in turn.

A step is a call from our code to code that is not ours: the system, Python's library, gRPC. An
error is raised instead of it, once, in the constructing thread. Calls that release something, and
calls that fail only for lack of memory, are left alone. The same call in a line counts once.
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
"""A file, a line, and the name of what is called there."""

_OURS: Final = tuple(
    f"{Path(each.__file__ or '').parent}/" for each in (sparkflow, sparkflow_runtime)
)
_LETS_GO: Final = re.compile(
    "close|release|stop|shutdown|unregister|forget|kill|wait|join|terminate|discard|rmtree|remove"
    "|communicate|unlink|rmdir|set$|notify|cancel|detach|enter$|exit$"
)
"""Calls that release or end something, or enter a block, whose object exists already."""
_ALWAYS_WORKS: Final = re.compile(
    r"(contextlib|weakref|_weakrefset|<string>):|threading:(?!start)|.*:(fileno|setblocking)$"
)
"""Calls that fail at most for lack of memory, by module and name; dataclasses are in "<string>"."""


class Interrupted(BaseException):
    """Like Ctrl-C: neither an OSError nor an Exception."""


def steps_of(make: Callable[[], Any]) -> list[Step]:
    """Returns the distinct steps of a construction in this thread."""
    found: dict[Step, None] = {}
    with _watched(lambda step: found.setdefault(step)):
        make()
    return list(found)


@contextmanager
def failing(at: Step, error: BaseException) -> Iterator[None]:
    """Raises an error instead of this thread's first occurrence of a step."""

    def fail(step: Step) -> None:
        if step == at:
            sys.setprofile(None)
            raise error

    with _watched(fail):
        yield


@contextmanager
def _watched(on_step: Callable[[Step], Any]) -> Iterator[None]:
    # Python calls them whenever it collects garbage; hypothesis has one.
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
    """Whether a C function can fail for reasons of the system other than lack of memory."""
    if called is open:
        return True
    owner = getattr(called, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        return called.__module__ not in (None, "builtins", "_thread", "numpy")
    return type(owner).__module__ != "builtins" and not isinstance(owner, type)


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_OURS) and frame.f_code.co_name != "<module>"
