"""What is said where numpy is given a tensor of a graph: which of its functions, and what to use.

Only for error texts: looks at the line of the program that called.
"""

from __future__ import annotations

import linecache
import re
import sys
from types import FrameType
from typing import Any, Final

_CALL: Final = re.compile(r"\b(?:np|numpy)\.((?:\w+\.)*\w+)\(")

_OTHER_NAMES: Final = {
    "mean": "reduce_mean",
    "sum": "reduce_sum",
    "max": "reduce_max",
    "amax": "reduce_max",
    "min": "reduce_min",
    "amin": "reduce_min",
    "prod": "reduce_prod",
    "any": "reduce_any",
    "all": "reduce_all",
    "average": "reduce_mean",
    "std": "math.reduce_std",
    "var": "math.reduce_variance",
    "linalg.norm": "norm",
    "dot": "matmul",
    "inner": "tensordot",
    "power": "pow",
    "concatenate": "concat",
    "vstack": "concat",
    "hstack": "concat",
    "argmax": "argmax",
    "clip": "clip_by_value",
    "log1p": "math.log1p",
    "absolute": "abs",
    "fabs": "abs",
    "array": "convert_to_tensor",
    "asarray": "convert_to_tensor",
    "append": "concat",
    "dtype": "cast",
    "float32": "to_float",
    "remainder": "mod",
    "true_divide": "divide",
    "swapaxes": "transpose",
    "ravel": "reshape",
    "repeat": "tile",
    "logical_not": "logical_not",
    "isnan": "is_nan",
    "isinf": "is_inf",
    "isfinite": "is_finite",
    "cumsum": "cumsum",
    "newaxis": "expand_dims",
}
"""Where TensorFlow calls it otherwise."""


def describe(what: str, name: str) -> str:
    """The text of the error of a tensor's `__array__`.

    Args:
        what: What was given to numpy, such as `symbolic Tensor`.
        name: Its name.
    """
    text = f"Cannot convert a {what} ({name}) to a numpy array. "
    called = _called(sys._getframe(2))
    if not called:
        return (
            f"{text}Run it in a session, session.run(tensor), for its value; in a graph use the "
            "functions of tf instead of those of numpy"
        )
    numpy_names = ", ".join(f"np.{each}" for each in called)
    instead = ", ".join(f"tf.{each}" for each in map(_instead, called) if each)
    return (
        f"{text}{numpy_names} {'needs' if len(called) == 1 else 'need'} values, which a graph has "
        f"only while a session runs it: {f'use {instead}' if instead else 'use functions of tf'}, "
        "or give numpy what session.run(tensor) returns"
    )


def _called(frame: FrameType | None) -> list[str]:
    """The functions of numpy on the line of the program that called; none if that is not known."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "numpy":
        frame = frame.f_back
    if frame is None:
        return []
    file = frame.f_code.co_filename
    found = list(dict.fromkeys(_CALL.findall(linecache.getline(file, frame.f_lineno))))
    if len(found) > 1 and hasattr(frame.f_code, "co_positions"):  # Python 3.11
        first, _, column, _ = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        if first is not None and column is not None:
            # Columns count bytes.
            call = _CALL.match(linecache.getline(file, first).encode()[column:].decode())
            found = [call[1]] if call is not None else found
    return found


def _instead(name: str) -> str:
    import sparkflow as tf

    wanted = _OTHER_NAMES.get(name, name)
    owner: Any = tf
    for part in wanted.split("."):
        owner = getattr(owner, part, None)
        if owner is None:
            return ""
    return wanted
