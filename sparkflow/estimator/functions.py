"""Calls an estimator's user functions: input_fn and model_fn."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from absl import logging

from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.train.session_run_hook import SessionRunHook

_MODEL_FN_ARGUMENTS = frozenset({"features", "labels", "mode", "params", "self", "config"})


class Inputs(NamedTuple):
    """The result of an input_fn.

    Attributes:
        features: A tensor, or tensors by name.
        labels: The same; None where there are none.
        hooks: What must run around a session that reads them.
    """

    features: Any
    labels: Any
    hooks: list[SessionRunHook]


class _InitializerHook(SessionRunHook):
    """Initialises the iterator of a dataset in each new session."""

    def __init__(self, initializer: Any) -> None:
        self._initializer = initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the initialiser."""
        session.run(self._initializer)


def arguments_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments that are not bound yet."""
    if isinstance(function, functools.partial):
        bound = set(function.keywords)
        names = arguments_of(function.func)[len(function.args) :]
        return tuple(name for name in names if name not in bound)
    return tuple(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    )


def check_model_fn(model_fn: Any, params: Any) -> None:
    """Passes for a function that an estimator can call.

    Raises:
        ValueError: It takes no features, or arguments that nothing is known of, or no params where
            some are given.
    """
    names = set(arguments_of(model_fn))
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator."
        )
    if params is None and "params" in names:
        logging.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to "
            "Estimator.",
            model_fn,
        )
    unknown = sorted(names - _MODEL_FN_ARGUMENTS)
    if unknown:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def call_input_fn(input_fn: Callable[..., Any], mode: str, params: Any, config: Any) -> Inputs:
    """Features and labels of an input_fn, which may return tensors or a dataset.

    Raises:
        ValueError: It returns a tuple of other than two parts.
    """
    names = arguments_of(input_fn)
    offered = {"mode": mode, "params": params, "config": config}
    given = {name: value for name, value in offered.items() if name in names}
    result = input_fn(**given)
    hooks: list[SessionRunHook] = []
    if _is_dataset(result):
        iterator = result.make_initializable_iterator()
        hooks.append(_InitializerHook(iterator.initializer))
        result = iterator.get_next()
    if isinstance(result, list | tuple):
        if len(result) != 2 and mode != ModeKeys.PREDICT:
            raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
        if mode == ModeKeys.PREDICT:
            return Inputs(result[0], None, hooks)
        return Inputs(result[0], result[1], hooks)
    return Inputs(result, None, hooks)


def _is_dataset(result: Any) -> bool:
    return hasattr(result, "make_initializable_iterator") and hasattr(result, "output_types")


def call_model_fn(
    model_fn: Callable[..., Any], features: Any, labels: Any, mode: str, params: Any, config: Any
) -> EstimatorSpec:
    """The specification of a model_fn.

    Raises:
        ValueError: It takes no labels although there are some, or returns something else.
    """
    names = arguments_of(model_fn)
    given: dict[str, Any] = {}
    if "labels" in names:
        given["labels"] = labels
    elif labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    offered = {"mode": mode, "params": params, "config": config}
    given |= {name: value for name, value in offered.items() if name in names}
    logging.info("Calling model_fn.")
    spec = model_fn(features=features, **given)
    logging.info("Done calling model_fn.")
    if not isinstance(spec, EstimatorSpec):
        raise ValueError("model_fn should return an EstimatorSpec.")
    return spec
