"""`tf.logging`: Python's logger `tensorflow`, under the names of TensorFlow 1.

It is named as TensorFlow's, because programs set its level by that name. It is set up at its first
use: where the program has configured no logging itself, lines go to stderr as `INFO:tensorflow:...`
from WARN up.
"""

from __future__ import annotations

import logging as _logging
import sys
import threading
from collections import Counter
from typing import Any

from sparkflow._api import export
from sparkflow_runtime.once import once

DEBUG = _logging.DEBUG
INFO = _logging.INFO
WARN = _logging.WARN
ERROR = _logging.ERROR
FATAL = _logging.FATAL

_lock = threading.Lock()
_counts: Counter[Any] = Counter()


@export("get_logger")
@once
def get_logger() -> _logging.Logger:
    """The logger everything here goes to."""
    logger = _logging.getLogger("tensorflow")
    if not _logging.getLogger().handlers and not logger.handlers:
        interactive = bool(getattr(sys, "ps1", None)) or bool(sys.flags.interactive)
        if interactive:
            logger.setLevel(INFO)
        handler = _logging.StreamHandler(sys.stdout if interactive else sys.stderr)
        handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT, None))
        logger.addHandler(handler)
    return logger


def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at a level."""
    get_logger().log(level, msg, *args, stacklevel=2, **kwargs)


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs a message at level DEBUG."""
    get_logger().debug(msg, *args, stacklevel=2, **kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs the course of things."""
    get_logger().info(msg, *args, stacklevel=2, **kwargs)


def warn(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs what is probably wrong."""
    get_logger().warning(msg, *args, stacklevel=2, **kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs what is probably wrong."""
    get_logger().warning(msg, *args, stacklevel=2, **kwargs)


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs a failure."""
    get_logger().error(msg, *args, stacklevel=2, **kwargs)


def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs a failure at the highest level; the program goes on."""
    get_logger().fatal(msg, *args, stacklevel=2, **kwargs)


def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at a level given as a number."""
    get_logger().log(level, msg, *args, stacklevel=2, **kwargs)


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Logs when a condition holds."""
    if condition:
        get_logger().log(level, msg, *args, stacklevel=2)


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs the first of every `n` calls made at this line of the program."""
    if not _times_here() % n:
        get_logger().log(level, msg, *args, stacklevel=2)


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs the first `n` calls made at this line of the program."""
    if _times_here() < n:
        get_logger().log(level, msg, *args, stacklevel=2)


def _times_here() -> int:
    """How often the line that called the caller of this was here before."""
    frame = sys._getframe(2)
    place = (frame.f_code, frame.f_lineno)
    with _lock:
        _counts[place] += 1
        return _counts[place] - 1


def TaskLevelStatusMessage(msg: Any) -> None:
    """Logs at ERROR."""
    get_logger().error(msg, stacklevel=2)


def flush() -> None:
    """Writes out what handlers hold back."""
    for handler in get_logger().handlers:
        handler.flush()


def get_verbosity() -> int:
    """The least level that is written."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int) -> None:
    """Sets the least level that is written: `DEBUG`, `INFO`, `WARN`, `ERROR` or `FATAL`."""
    get_logger().setLevel(v)


__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "TaskLevelStatusMessage",
    "debug",
    "error",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]
