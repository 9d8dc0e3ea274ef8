"""`tf.contrib.eager`: eager execution's first home."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import tree

import sparkflow as tf
from sparkflow.differentiation.python_functions import custom_gradient
from sparkflow.eager.mode import executing_eagerly, executing_eagerly as in_eager_mode
from sparkflow.eager.py_function import function as defun, py_function
from sparkflow.eager.tape import GradientTape
from sparkflow.variables.variable import Variable

__all__ = [
    "GradientTape",
    "Saver",
    "Variable",
    "add_execution_callback",
    "custom_gradient",
    "defun",
    "enable_eager_execution",
    "executing_eagerly",
    "gradients_function",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "in_eager_mode",
    "num_gpus",
    "py_func",
    "run",
    "value_and_gradients_function",
]
Function = Callable[..., Any]


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Same as `tf.enable_eager_execution`."""
    tf.enable_eager_execution(*args, **kwargs)


def py_func(func: Function, inp: Any, Tout: Any, name: str | None = None) -> Any:
    """Same as `tf.py_function`."""
    return py_function(func, inp, Tout, name)


def num_gpus() -> int:
    """The number of GPUs."""
    return len(tf.config.list_physical_devices("GPU"))


def value_and_gradients_function(f: Function, params: Any = None) -> Function:
    """A function that returns the result of `f` and its gradients.

    Args:
        f: A function of tensors.
        params: The positions of the arguments to differentiate by; all when None.

    Returns:
        A function of the same arguments, and of `dy`, the gradient of the result.
    """

    @functools.wraps(f)
    def differentiated(*args: Any, dy: Any = None) -> tuple[Any, list[Any]]:
        tensors = [tf.convert_to_tensor(each) for each in args]
        positions = range(len(tensors)) if params is None else params
        sources = [tensors[each] for each in positions]
        with GradientTape() as tape:
            tape.watch(sources)
            value = f(*tensors)
            if value is None:
                raise ValueError(
                    "Cannot differentiate a function that returns None; did you forget "
                    f"to return a value from {f.__name__}?"
                )
        return value, list(tape.gradient(value, sources, output_gradients=dy))

    return differentiated


def gradients_function(f: Function, params: Any = None) -> Function:
    """A function that returns the gradients of `f`, see `value_and_gradients_function`."""
    both = value_and_gradients_function(f, params)

    @functools.wraps(f)
    def gradients(*args: Any, dy: Any = None) -> list[Any]:
        found: list[Any] = both(*args, dy=dy)[1]
        return found

    return gradients


def implicit_value_and_gradients(f: Function) -> Function:
    """A function that returns the result of `f`, and pairs of gradients and variables it reads."""

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        with GradientTape() as tape:
            value = f(*args, **kwargs)
            if value is None:
                raise ValueError(
                    "Cannot differentiate a function that returns None; did you forget "
                    f"to return a value from {f.__name__}?"
                )
        variables = tape.watched_variables()
        if not variables:
            raise ValueError(
                "No trainable variables were accessed while the function was being computed."
            )
        gradients = tape.gradient(value, list(variables))
        return value, list(zip(gradients, variables, strict=True))

    return differentiated


def implicit_gradients(f: Function) -> Function:
    """A function that returns pairs of gradients and the variables that `f` reads."""
    both = implicit_value_and_gradients(f)

    @functools.wraps(f)
    def gradients(*args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = both(*args, **kwargs)[1]
        return found

    return gradients


def run(main: Any = None, argv: Any = None) -> None:
    """Turns eager execution on and runs a program's `main`, see `tf.app.run`."""
    tf.enable_eager_execution()
    tf.app.run(main, argv)


def add_execution_callback(callback: Function) -> None:
    """Not available.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        f"add_execution_callback({callback!r}): operations of eager execution call nobody back; "
        "wrap the functions you call instead"
    )


class Saver:
    """Writes variables of eager execution to checkpoints and reads them back.

    Args:
        var_list: The variables, or a dictionary of them by name; each name once.
    """

    def __init__(self, var_list: Any) -> None:
        given = (
            var_list.items()
            if isinstance(var_list, dict)
            else ((each.name.split(":")[0], each) for each in tree.flatten(var_list))
        )
        self._variables: dict[str, Any] = {}
        for name, variable in given:
            if name in self._variables:
                raise ValueError(f"Two variables have the name {name!r}")
            self._variables[name] = variable

    def save(self, file_prefix: str, global_step: Any = None) -> str:
        """Writes a checkpoint.

        Args:
            file_prefix: Its path.
            global_step: A number that is appended, None for none.

        Returns:
            The path with the number.
        """
        path = os.fspath(file_prefix)
        if global_step is not None:
            path = f"{path}-{int(global_step)}"
        values = {name: each.numpy() for name, each in self._variables.items()}
        with tf.Graph().as_default():
            held = {
                name: tf.Variable(value, name=f"value_{index}")
                for index, (name, value) in enumerate(values.items())
            }
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return str(tf.train.Saver(held).save(session, path, write_meta_graph=False))

    def restore(self, file_prefix: str) -> None:
        """Assigns what a checkpoint holds.

        Raises:
            NotFoundError: The checkpoint lacks a variable.
        """
        reader = tf.train.load_checkpoint(file_prefix)
        for name, variable in self._variables.items():
            variable.assign(reader.get_tensor(name))
