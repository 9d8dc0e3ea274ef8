"""`make_template`: a function whose variables are made at its first call and shared by all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.variables.variable_scope import VariableScope, variable_scope


@export("make_template")
def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Template:
    """`func_` with variables of its own, made by `get_variable` in its first call.

    Args:
        name_: The name of the variable scope, made unique.
        func_: The function.
        create_scope_now_: Open the scope now, not in the first call.
        unique_name_: The name of the scope as it is, instead of `name_`.
        custom_getter_: A custom getter of the scope.
        **kwargs: Arguments that every call gives the function.
    """
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """The result of `make_template`: call it like the function.

    Args:
        name: The name of the variable scope.
        func: The function.
        create_scope_now: Open the scope now.
        unique_name: The name of the scope as it is.
        custom_getter: A custom getter of the scope.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool,
        unique_name: str | None,
        custom_getter: Callable[..., Any] | None,
    ) -> None:
        if name is None:
            raise ValueError("name cannot be None.")
        self._func = func
        self._name = name
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._called = False
        self._scope: VariableScope | None = None
        if create_scope_now:
            # As in TensorFlow, the first call opens the name scope, like all others.
            with self._opened(auxiliary_name_scope=False) as scope:
                self._scope = scope

    def _opened(self, auxiliary_name_scope: bool = True) -> Any:
        return variable_scope(
            self._unique_name,
            self._name,
            custom_getter=self._custom_getter,
            auxiliary_name_scope=auxiliary_name_scope,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function in its scope.

        Raises:
            ValueError: A later call makes a variable that the first one did not.
        """
        if self._scope is None:
            with self._opened() as scope:
                self._scope = scope
                return self._call(args, kwargs, scope)
        with variable_scope(self._scope, reuse=self._called) as scope:
            return self._call(args, kwargs, scope)

    def _call(self, args: Any, kwargs: Any, scope: VariableScope) -> Any:
        before = len(get_collection(GraphKeys.GLOBAL_VARIABLES))
        trainable = len(get_collection(GraphKeys.TRAINABLE_VARIABLES))
        result = self._func(*args, **kwargs)
        if self._called:
            if trainable != len(get_collection(GraphKeys.TRAINABLE_VARIABLES)):
                raise ValueError(
                    "Trainable variable created when calling a template after the first time, "
                    "perhaps you used tf.Variable when you meant tf.get_variable: "
                    f"{get_collection(GraphKeys.TRAINABLE_VARIABLES)[trainable:]}"
                )
            if before != len(get_collection(GraphKeys.GLOBAL_VARIABLES)):
                raise ValueError(
                    "New variables created when calling a template after the first time, perhaps "
                    "you used tf.Variable when you meant tf.get_variable: "
                    f"{get_collection(GraphKeys.GLOBAL_VARIABLES)[before:]}"
                )
        self._called = True
        return result

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """Its scope, None before it is opened."""
        return self._scope

    var_scope = variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """The name of its scope, None before it is opened."""
        return None if self._scope is None else self._scope.name.rstrip("/")

    @property
    def variables(self) -> list[Any]:
        """Its variables, global and local, in the order of their making."""
        return self.global_variables + self.local_variables

    @property
    def global_variables(self) -> list[Any]:
        """Its global variables."""
        return [] if self._scope is None else self._scope.global_variables()

    @property
    def local_variables(self) -> list[Any]:
        """Its local variables."""
        return [] if self._scope is None else self._scope.local_variables()

    @property
    def trainable_variables(self) -> list[Any]:
        """Its trainable variables."""
        return [] if self._scope is None else self._scope.trainable_variables()

    trainable_weights = trainable_variables
    weights = variables
