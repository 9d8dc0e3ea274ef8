"""`get_variable` and `variable_scope`: variables shared by name."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sparkflow import initializers
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.constants import constant_array
from sparkflow.graph.graph import Graph
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph, graph_of
from sparkflow.graph.tensor_shape import TensorShape
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import DType, as_dtype, float32


class _ReuseMode(enum.Enum):
    """How `get_variable` treats names that exist."""

    AUTO_REUSE = 1


AUTO_REUSE: Final = _ReuseMode.AUTO_REUSE
"""As the `reuse` of a scope: get the variable where it exists, make it where it does not."""


@dataclass(eq=False)
class VariableScope:
    """The defaults that `get_variable` uses inside a `variable_scope`.

    Attributes:
        name: The prefix of variable names, "" at the root.
        reuse: False to make variables, True to get existing ones, `AUTO_REUSE` for either.
        original_name_scope: The name scope that was open when the scope was first entered.
    """

    name: str = ""
    reuse: Any = False
    initializer: Any = None
    regularizer: Any = None
    caching_device: Any = None
    custom_getter: Callable[..., Any] | None = None
    dtype: DType = float32
    constraint: Any = None
    original_name_scope: str = ""

    def reuse_variables(self) -> None:
        """Makes `get_variable` get existing variables from now on."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Sets the default initializer."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Sets the default regularizer."""
        self.regularizer = regularizer

    def get_collection(self, name: str) -> list[Any]:
        """The items of a collection whose names are in this scope."""
        prefix = f"{self.name}/" if self.name else None
        return get_default_graph().get_collection(name, prefix)

    def trainable_variables(self) -> list[Variable]:
        """The trainable variables in this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Variable]:
        """The global variables in this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)


@dataclass
class _Store:
    """The variables of one graph by name, and its open variable scope."""

    scope: VariableScope = field(default_factory=VariableScope)
    variables: dict[str, Variable] = field(default_factory=dict)
    times_opened: dict[str, int] = field(default_factory=dict)


_STORE_KEY = ("sparkflow", "variable store")


def _store(graph: Graph) -> _Store:
    held = graph.get_collection_ref(_STORE_KEY)
    if not held:
        held.append(_Store())
    store: _Store = held[0]
    return store


def get_variable_scope() -> VariableScope:
    """The open variable scope."""
    return _store(get_default_graph()).scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Sequence[str] | None = None,
    caching_device: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Any = None,
) -> Variable:
    """The variable of that name in the open variable scope: made, or got where the scope reuses.

    Args:
        name: Its name below the scope's.
        shape: Its shape; not with a constant as `initializer`.
        dtype: Its type; the scope's (float32) when None.
        initializer: A function of (shape, dtype), an initializer class, or a constant; the scope's
            when None, and then Glorot's uniform one for real numbers and zeros for others.
        regularizer: A function of the variable whose result goes to the regularization losses.
        trainable: As for `Variable`.
        collections: As for `Variable`.
        caching_device: As for `Variable`.
        validate_shape: As for `Variable`.
        constraint: As for `Variable`.
        use_resource: Accepted for TensorFlow's sake.
        custom_getter: Called instead with the getter and all arguments.

    Raises:
        ValueError: It exists and the scope does not reuse; or the other way round; or it exists
            with another shape or dtype; or the shape is not fully known.
    """
    graph = get_default_graph()
    store = _store(graph)
    scope = store.scope
    path = f"{scope.name}/{name}" if scope.name else name
    arguments = {
        "shape": shape,
        "dtype": scope.dtype if dtype is None else as_dtype(dtype).base,
        "initializer": scope.initializer if initializer is None else initializer,
        "regularizer": scope.regularizer if regularizer is None else regularizer,
        "trainable": trainable,
        "collections": collections,
        "caching_device": scope.caching_device if caching_device is None else caching_device,
        "validate_shape": validate_shape,
        "constraint": scope.constraint if constraint is None else constraint,
    }
    if dtype is None and initializer is not None and not callable(initializer):
        # A constant's own type wins over the scope's default.
        arguments["dtype"] = _dtype_of(initializer)

    def getter(name: str, **given: Any) -> Variable:
        return _get(graph, store, scope.reuse, name, **given)

    custom = scope.custom_getter if custom_getter is None else custom_getter
    with graph.name_scope(None):
        if custom is not None:
            found: Variable = custom(getter, path, **arguments)
            return found
        return getter(path, **arguments)


def _dtype_of(value: Any) -> DType:
    if isinstance(value, Symbolic):
        return value._to_tensor().dtype.base
    return as_dtype(constant_array(value).dtype)


def _get(
    graph: Graph, store: _Store, reuse: Any, name: str, shape: Any, dtype: DType, **given: Any
) -> Variable:
    asked = TensorShape(shape)
    existing = store.variables.get(name)
    if existing is None:
        if reuse is True:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). Did "
                "you mean to set reuse=tf.AUTO_REUSE in VarScope?"
            )
        variable = store.variables[name] = _make(graph, name, asked, dtype, **given)
        return variable
    if not reuse:
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            f"reuse=tf.AUTO_REUSE in VarScope? Originally defined at:\n\n{existing.op.source}"
        )
    if not asked.is_compatible_with(existing.shape):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {asked} and found shape "
            f"{existing.shape}."
        )
    if not dtype.is_compatible_with(existing.dtype):
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
            f"{existing.dtype.base.name}."
        )
    return existing


def _make(
    graph: Graph,
    name: str,
    shape: TensorShape,
    dtype: DType,
    initializer: Any,
    regularizer: Any,
    trainable: bool | None,
    collections: Sequence[str] | None,
    caching_device: Any,
    validate_shape: bool,
    constraint: Any,
) -> Variable:
    if initializer is None:
        initializer = _default_initializer(name, dtype)
    if isinstance(initializer, type):
        initializer = initializer()
    initial_value: Any = initializer
    if callable(initializer):
        if validate_shape and not shape.is_fully_defined():
            raise ValueError(
                f"Shape of a new variable ({name}) must be fully defined, but instead was {shape}."
            )
        make = initializer

        def initial_value() -> Any:
            return make(shape.as_list(), dtype=dtype)

    elif shape.ndims is not None:
        raise ValueError("If initializer is a constant, do not specify shape.")
    variable = Variable(
        initial_value,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        dtype=dtype,
        validate_shape=validate_shape,
        constraint=constraint,
        name=name,
    )
    if regularizer is not None:
        with graph.colocate_with(variable), graph.name_scope(f"{name}/Regularizer/"):
            loss = regularizer(variable)
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def _default_initializer(name: str, dtype: DType) -> Any:
    if dtype.is_floating:
        return initializers.GlorotUniform()
    if dtype.is_integer or dtype.is_bool:
        return initializers.Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype.name} is required")


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Sequence[Any] | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Prefixes the names of `get_variable`, and opens a name scope of the same name.

    Args:
        name_or_scope: A name below the open scope, or a scope to enter again; None for
            `default_name`.
        default_name: Made unique where it was opened before.
        values: Tensors whose graph is used.
        initializer: Defaults inside.
        regularizer: Defaults inside.
        caching_device: Defaults inside.
        custom_getter: Defaults inside.
        dtype: Defaults inside.
        constraint: Defaults inside.
        reuse: True or `AUTO_REUSE` to get existing variables; inherited when None or False.
        use_resource: Accepted for TensorFlow's sake.
        auxiliary_name_scope: Open the name scope too.

    Raises:
        TypeError: Neither a name nor a default name is given.
        ValueError: `reuse` together with `default_name` alone.
    """
    if name_or_scope is None and default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    if name_or_scope is None and reuse:
        raise ValueError("reuse=True cannot be used without a name_or_scope")
    graph = graph_of(values or ())
    store = _store(graph)
    outer = store.scope
    if isinstance(name_or_scope, VariableScope):
        entered = replace(name_or_scope)
        name_scope = name_or_scope.name.rpartition("/")[2]
        entered.reuse = reuse or entered.reuse or outer.reuse
    else:
        name_scope = name_or_scope or _unique(store, outer, str(default_name))
        path = f"{outer.name}/{name_scope}" if outer.name else name_scope
        entered = replace(outer, name=path, reuse=reuse or outer.reuse)
    given = {
        "initializer": initializer,
        "regularizer": regularizer,
        "caching_device": caching_device,
        "custom_getter": custom_getter,
        "constraint": constraint,
        "dtype": None if dtype is None else as_dtype(dtype),
    }
    entered = replace(entered, **{k: v for k, v in given.items() if v is not None})
    with ExitStack() as stack:
        stack.enter_context(graph.as_default())
        if auxiliary_name_scope and name_scope:
            scope = stack.enter_context(graph.name_scope(name_scope))
            if not isinstance(name_or_scope, VariableScope):
                entered.original_name_scope = scope
        store.times_opened[entered.name] = store.times_opened.get(entered.name, 0) + 1
        # What is opened below this scope counts anew, as in TensorFlow.
        store.scope = entered
        try:
            yield entered
        finally:
            store.scope = outer
            for name in [n for n in store.times_opened if n.startswith(f"{entered.name}/")]:
                del store.times_opened[name]


def _unique(store: _Store, outer: VariableScope, name: str) -> str:
    prefix = f"{outer.name}/" if outer.name else ""
    candidate, index = name, 0
    while store.times_opened.get(prefix + candidate):
        index += 1
        candidate = f"{name}_{index}"
    return candidate


def no_regularizer(_: Any) -> None:
    """A regularizer that adds nothing, to switch off the scope's."""
