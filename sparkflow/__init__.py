"""TensorFlow 1's programming model: `import sparkflow as tf`.

Build a graph with the functions here, run it with a `Session`. Everything is re-exported by name;
the code is in the modules. What there is stands in `__init__.pyi`, for people, type checkers and
the loader alike: modules are imported when a name of theirs is first used, so that a process that
only serves a part of this starts quickly. Training from a Spark DataFrame is in `sparkflow.spark`.
`__version__` is that of the TensorFlow whose interface this is, see `sparkflow.version`.
"""

import functools
from types import ModuleType
from typing import Any, NoReturn

import lazy_loader

from sparkflow.version import VERSION

__version__ = VERSION

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        _refuse(__name__, __all__, name)
    found = _load(name)
    for each in __all__:  # this one, and those that have come with it
        module = globals().get(each)
        if isinstance(module, ModuleType) and "__getattr__" not in vars(module):
            known = vars(module).get("__all__") or [
                name for name, value in vars(module).items() if not isinstance(value, ModuleType)
            ]
            vars(module)["__getattr__"] = functools.partial(_refuse, module.__name__, known)
    return found


def _refuse(module: str, known: Any, name: str) -> NoReturn:
    if name.startswith("__"):  # a protocol of Python asks, nobody misspelt anything
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    from sparkflow.unknown_names import describe

    raise AttributeError(describe(module, name, known))
