"""Writes tests/golden/names/*.json: the public names of TensorFlow's version 1 API.

Run with a Python that has TensorFlow; tests read the files without it:

    /work/venvs/oracle/bin/python scripts/generate_names_golden.py

- `public.json`: every public name, as `train.Saver`, with its kind (module, class, function or
  value), the parameters of functions, and the members of classes with their parameters;
- `raw_ops.json`: the functions of `tf.raw_ops` with their parameters;
- `op_defs.json`: the op types with the names of their inputs, outputs and attributes.

`tf.keras` is one name of the first, and other modules are listed under the first path they have.
"""

import inspect
import json
import os
import types
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

DIRECTORY = Path(__file__).parents[1] / "tests" / "golden" / "names"
KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def main() -> None:
    """Writes the files."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    names: dict[str, Any] = {}
    walk(tf, "", names, set())
    write("public", names)
    write("raw_ops", {name: parameters(getattr(tf.raw_ops, name)) for name in public(tf.raw_ops)})
    ops = op_def_pb2.OpList()
    ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    write("op_defs", {op.name: described(op) for op in ops.op})


def walk(module: Any, path: str, names: dict[str, Any], seen: set[int]) -> None:
    """Adds what a module offers, and what its parts do."""
    for name in public(module):
        found = getattr(module, name)
        full = f"{path}.{name}" if path else name
        if isinstance(found, types.ModuleType):
            package = vars(found).get("__name__", "")
            if name in ("keras", "raw_ops", "layers", "rnn_cell"):  # the last need Keras 2
                names[full] = {"kind": "module"}
            elif package.startswith("tensorflow") and id(found) not in seen and path != "compat":
                seen.add(id(found))
                names[full] = {"kind": "module"}
                walk(found, full, names, seen)
        elif inspect.isclass(found):
            names[full] = {"kind": "class", "members": members(found)}
        elif callable(found):
            names[full] = {"kind": "function", "parameters": parameters(found)}
        else:
            names[full] = {"kind": "value"}


def public(module: Any) -> list[str]:
    """The names that do not begin with an underscore."""
    return [name for name in dir(module) if not name.startswith("_")]


def members(found: Any) -> dict[str, Any]:
    """Of methods the parameters, None of the others; nothing of messages."""
    if hasattr(found, "DESCRIPTOR"):
        return {}
    listed = {name: parameters(getattr(found, name)) for name in public(found)}
    return {"__init__": parameters(found.__init__), **listed}


def parameters(function: Any) -> list[str] | None:
    """The names of the parameters, None where there is nothing to call."""
    if not callable(function):
        return None
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [KINDS.get(each.kind, "") + each.name for each in listed if each.name != "self"]


def described(op: Any) -> list[list[str]]:
    """Names of inputs, of outputs, of attributes."""
    return [[each.name for each in part] for part in (op.input_arg, op.output_arg, op.attr)]


def write(name: str, content: dict[str, Any]) -> None:
    """One entry per line."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(content.items())]
    (DIRECTORY / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
