"""Python functions of this process that graphs may call, by token.

A graph names a function by a token that was created here; nothing that arrives over a network can
become a function. A server in another process reports that it does not know the token.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from sparkflow_runtime.errors import InvalidArgumentError

_lock = threading.Lock()
_numbers = itertools.count()


class PyFunction:
    """A Python function that graphs may call as long as this object exists.

    Args:
        function: From arrays to an array or a sequence of arrays.

    Attributes:
        token: Its name in graphs.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        with _lock:
            self.token = f"pyfunc_{next(_numbers)}"
            _functions[self.token] = self


_functions: weakref.WeakValueDictionary[str, PyFunction] = weakref.WeakValueDictionary()
"""Guarded by `_lock`."""


def find(token: str) -> Callable[..., Any]:
    """Returns the function of a token.

    Raises:
        InvalidArgumentError: There is none in this process.
    """
    with _lock:
        found = _functions.get(token)
    if found is None:
        raise InvalidArgumentError(
            message=f"This process has no Python function {token!r}. tf.py_func runs only in the "
            "process that built the graph: pin it there, or use ops"
        )
    return found.function
