"""Finds the line of the user's program that makes a node."""

from __future__ import annotations

import contextlib
import os
import sys
from types import FrameType

import sparkflow_runtime

_OURS = (
    # This file lies in sparkflow/graph/nodes/, so the first one is the package sparkflow itself.
    *(
        os.path.dirname(os.path.abspath(path)) + os.sep
        for path in (os.path.dirname(os.path.dirname(__file__)), sparkflow_runtime.__file__)
    ),
    contextlib.__file__,
)


def user_line() -> str:
    """`file:line` of the innermost frame outside sparkflow, "" when there is none.

    Walks plain frames: no traceback object is made and no source file is read, because this runs
    for every node.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_OURS):
            return f"{filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
