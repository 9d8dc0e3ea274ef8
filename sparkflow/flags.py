"""`tf.flags`: absl's flags, with the two habits of TensorFlow 1.

`FLAGS` reads the command line at the first access when `tf.app.run` has not done so yet, and the
DEFINE functions take their arguments under the older names `flag_name`, `default_value` and
`docstring` too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from absl import flags as _flags
from absl.flags import *  # noqa: F403 - TensorFlow 1 offers all of absl's names here
from absl.flags import __all__ as _absl_names

from sparkflow._api.loading import answers

_OLD_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


class _LazyFlags:
    """`tf.flags.FLAGS`: the values of all flags, as attributes.

    Args:
        wrapped: absl's.
    """

    def __init__(self, wrapped: _flags.FlagValues) -> None:
        self.__dict__["__wrapped"] = wrapped

    def __getattribute__(self, name: str) -> Any:
        if name in ("__dict__", "__class__"):
            return super().__getattribute__(name)
        wrapped = super().__getattribute__("__dict__")["__wrapped"]
        if not name.startswith("_") and name in wrapped and not wrapped.is_parsed():
            wrapped(sys.argv, known_only=True)
        return getattr(wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        wrapped = self.__dict__["__wrapped"]
        if name in wrapped and not wrapped.is_parsed():
            wrapped(sys.argv, known_only=True)
        setattr(wrapped, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["__wrapped"], name)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["__wrapped"])

    def __getitem__(self, name: str) -> Any:
        return self.__dict__["__wrapped"][name]

    def __setitem__(self, name: str, flag: Any) -> None:
        self.__dict__["__wrapped"][name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__["__wrapped"]

    def __len__(self) -> int:
        return len(self.__dict__["__wrapped"])

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["__wrapped"])

    def __str__(self) -> str:
        return str(self.__dict__["__wrapped"])

    def __call__(self, *args: Any, **kwargs: Any) -> list[str]:
        parsed: list[str] = self.__dict__["__wrapped"](*args, **kwargs)
        return parsed


FLAGS = _LazyFlags(_flags.FLAGS)  # type: ignore[assignment]  # stands in for it


def _with_old_names(define: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(define)
    def defined(*args: Any, **kwargs: Any) -> Any:
        for old, new in _OLD_NAMES.items():
            if old in kwargs:
                kwargs[new] = kwargs.pop(old)
        positional = ("name", "default", "help")[: len(args)]
        if "help" not in kwargs and "help" not in positional:
            kwargs["help"] = None
        return define(*args, **kwargs)

    return defined


DEFINE_string = _with_old_names(_flags.DEFINE_string)
DEFINE_integer = _with_old_names(_flags.DEFINE_integer)
DEFINE_float = _with_old_names(_flags.DEFINE_float)
DEFINE_boolean = _with_old_names(_flags.DEFINE_boolean)
DEFINE_bool = DEFINE_boolean

__getattr__ = answers("flags")
__all__ = list(_absl_names)
