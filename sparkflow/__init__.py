"""TensorFlow 1's programming model: `import sparkflow as tf`.

Build a graph with the functions here, run it with a `Session`. What there is stands in
`__init__.pyi`, for people and type checkers; `sparkflow._api` says where it comes from. Modules are
imported when a name of theirs is first used, so that a process that only serves a part of this
starts quickly. Training from a Spark DataFrame is in `sparkflow.spark`. `__version__` is that of
the TensorFlow whose interface this is, see `sparkflow.version`.
"""

import functools
from os.path import exists as _exists
from types import ModuleType
from typing import Any

from sparkflow._api.loading import face, missing
from sparkflow._generated.names import HOMES, MODULES
from sparkflow.version import VERSION

__version__ = VERSION

if _exists(f"{__path__[0]}/HogwildSparkModel.py"):
    from sparkflow.other_package import warn_of_its_files

    warn_of_its_files(__path__[0])

__path__.append(f"{__path__[0]}/_generated/tf")  # `import sparkflow.math` finds it there

_load, __dir__, __all__ = face(__name__, HOMES, MODULES)


def __getattr__(name: str) -> Any:
    found = _load(name)
    for each in MODULES.split():  # this one, and those that have come with it
        module = globals().get(each)
        if isinstance(module, ModuleType) and "__getattr__" not in vars(module):
            known = vars(module).get("__all__") or [
                name for name, value in vars(module).items() if not isinstance(value, ModuleType)
            ]
            vars(module)["__getattr__"] = functools.partial(_refuse, module.__name__, known)
    return found


def _refuse(module: str, known: Any, name: str) -> Any:
    raise AttributeError(missing(module, name, known))
