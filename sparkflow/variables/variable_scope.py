"""`variable_scope` and `get_variable`: names and defaults of variables, shared by name."""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.constants import constant_array
from sparkflow.graph.graph import Graph
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph, graph_of
from sparkflow.variables.creators import VariableAggregation, VariableSynchronization
from sparkflow.variables.variable import Variable
from sparkflow.variables.variable_store import VariableStore
from sparkflow_runtime.dtypes import DType, as_dtype, float32


class _ReuseMode(enum.Enum):
    """How `get_variable` treats names that exist."""

    AUTO_REUSE = 1


AUTO_REUSE: Final = _ReuseMode.AUTO_REUSE
"""As the `reuse` of a scope: get the variable where it exists, make it where it does not."""


@export("VariableScope")
class VariableScope:
    """The defaults that `get_variable` uses inside a `variable_scope`.

    Args:
        reuse: False to make variables, True to get existing ones, `AUTO_REUSE` for either.
        name: The prefix of variable names, "" at the root.
        initializer: Default of `get_variable`; the following ones likewise.
        regularizer: Likewise.
        caching_device: Likewise.
        partitioner: Likewise.
        custom_getter: Likewise.
        dtype: Likewise.
        use_resource: Likewise.
        constraint: Likewise.
        name_scope: The name scope that was open when the scope was first entered.
    """

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Callable[..., Any] | None = None,
        name_scope: str = "",
        dtype: Any = float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self.name = name
        self.reuse = reuse
        self.initializer = initializer
        self.regularizer = regularizer
        self.caching_device = caching_device
        self.partitioner = partitioner
        self.custom_getter = custom_getter
        self.dtype = dtype
        self.use_resource = use_resource
        self.constraint = constraint
        self.original_name_scope = name_scope

    def reuse_variables(self) -> None:
        """Makes `get_variable` return existing variables from now on."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Sets the default initializer."""
        self.initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Sets the default element type."""
        self.dtype = dtype

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Accepted for TensorFlow's sake."""
        self.use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Sets the default regularizer."""
        self.regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Sets where copies of the values are kept."""
        self.caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Sets the default partitioner."""
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Callable[..., Any] | None) -> None:
        """Sets the default custom getter."""
        self.custom_getter = custom_getter

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

    def local_variables(self) -> list[Variable]:
        """The local variables in this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        var_store: VariableStore,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Sequence[str] | None = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Callable[..., Any] | None = None,
        constraint: Any = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
    ) -> Any:
        """The variable `name` in this scope, see `sparkflow.get_variable`."""
        path = f"{self.name}/{name}" if self.name and name else self.name or name
        if dtype is not None and initializer is not None and not callable(initializer):
            found = _dtype_of(initializer, as_dtype(dtype).base)
            if found is not as_dtype(dtype).base:
                raise ValueError(
                    f"Initializer type '{found}' and explicit dtype '{as_dtype(dtype)}' don't "
                    "match."
                )
        if trainable is None:
            trainable = synchronization is not VariableSynchronization.ON_READ
        return var_store.get_variable(
            path,
            shape=shape,
            dtype=self._dtype(dtype, initializer),
            initializer=self.initializer if initializer is None else initializer,
            regularizer=self.regularizer if regularizer is None else regularizer,
            reuse=self.reuse if reuse is None else reuse,
            trainable=trainable,
            collections=collections,
            caching_device=self.caching_device if caching_device is None else caching_device,
            partitioner=self.partitioner if partitioner is None else partitioner,
            validate_shape=validate_shape,
            use_resource=self.use_resource if use_resource is None else use_resource,
            custom_getter=self.custom_getter if custom_getter is None else custom_getter,
            constraint=self.constraint if constraint is None else constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )

    def _dtype(self, dtype: Any, initializer: Any) -> DType:
        if dtype is not None:
            return as_dtype(dtype).base
        return as_dtype(self.dtype).base


def _dtype_of(value: Any, preferred: DType) -> DType:
    if isinstance(value, Symbolic):
        return value._to_tensor().dtype.base
    try:
        return as_dtype(constant_array(value, preferred).dtype)
    except (TypeError, ValueError):
        return as_dtype(constant_array(value).dtype)


class _Scopes(threading.local):
    """The open scope of each thread, and how often each name was opened there."""

    def __init__(self) -> None:
        self.scope = VariableScope(False)
        self.times_opened: dict[str, int] = {}


class _State:
    """What a graph remembers of its variables."""

    def __init__(self, graph: Graph) -> None:
        self.store = VariableStore(graph.root)
        self.open = _Scopes()


_KEY = ("sparkflow", "variable store")


def _state(graph: Graph) -> _State:
    held = graph.get_collection_ref(_KEY)
    if not held:
        held.append(_State(graph))
    state: _State = held[0]
    return state


@export("get_variable_scope")
def get_variable_scope() -> VariableScope:
    """The open variable scope."""
    return _state(get_default_graph()).open.scope


@export("get_variable")
def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Sequence[str] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
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
        partitioner: A function of shape and dtype to the number of parts per axis; the result is a
            `PartitionedVariable` then.
        validate_shape: As for `Variable`.
        use_resource: Accepted for TensorFlow's sake.
        custom_getter: Called instead with the getter and all arguments.
        constraint: As for `Variable`.
        synchronization: As for `Variable`.
        aggregation: As for `Variable`.

    Raises:
        ValueError: It exists and the scope does not reuse; or the other way round; or it exists
            with another shape or dtype; or the shape is not fully known.
    """
    graph = get_default_graph()
    state = _state(graph)
    with graph.name_scope(None):
        return state.open.scope.get_variable(
            state.store,
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            partitioner=partitioner,
            validate_shape=validate_shape,
            use_resource=use_resource,
            custom_getter=custom_getter,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )


@export("get_local_variable")
@functools.wraps(get_variable)
def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """As `get_variable`, for a variable of this process only: local, and never trainable."""
    given = dict(zip(_LOCAL_ARGUMENTS, args, strict=False)) | kwargs
    collections = given.pop("collections", None)
    given["collections"] = [*(collections or []), GraphKeys.LOCAL_VARIABLES]
    given["trainable"] = False
    return get_variable(name, **given)


_LOCAL_ARGUMENTS = (
    "shape",
    "dtype",
    "initializer",
    "regularizer",
    "trainable",
    "collections",
    "caching_device",
    "partitioner",
    "validate_shape",
    "use_resource",
    "custom_getter",
    "constraint",
    "synchronization",
    "aggregation",
)


@export("variable_scope")
@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Sequence[Any] | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
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
        default_name: The name where `name_or_scope` is None, made unique.
        values: Tensors whose graph is used.
        initializer: Default inside.
        regularizer: Default inside.
        caching_device: Default inside.
        partitioner: Default inside.
        dtype: Default inside.
        use_resource: Default inside.
        constraint: Default inside.
        custom_getter: Wrapped around the getters of the scopes further out.
        reuse: True or `AUTO_REUSE` to get existing variables; inherited when None or False.
        auxiliary_name_scope: Open the name scope too.

    Raises:
        TypeError: Neither a name nor a default name is given, or it is neither.
        ValueError: `reuse` together with `default_name` alone.
    """
    if default_name is None and name_or_scope is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    if not isinstance(name_or_scope, str | VariableScope | None):
        raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
    if not isinstance(auxiliary_name_scope, bool):
        raise TypeError(
            f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}"
        )
    if name_or_scope is None and reuse:
        raise ValueError("reuse=True cannot be used without a name_or_scope")
    graph = graph_of(values or ())
    opened = _state(graph).open
    outer = opened.scope
    if isinstance(name_or_scope, VariableScope):
        inner = _copy(name_or_scope, name_or_scope.name, reuse or name_or_scope.reuse)
        name_scope: str | None = name_or_scope.name.rpartition("/")[2]
    else:
        if name_or_scope is None:
            name = _unique(opened, outer, str(default_name))
            name_scope = default_name
        else:
            name = name_scope = name_or_scope
        path = f"{outer.name}/{name}" if outer.name else name
        inner = _copy(outer, path, reuse or outer.reuse)
    _override(
        inner,
        initializer=initializer,
        regularizer=regularizer,
        caching_device=caching_device,
        partitioner=partitioner,
        dtype=dtype,
        use_resource=use_resource,
        constraint=constraint,
    )
    if custom_getter is not None:
        inner.custom_getter = _wrapped(custom_getter, inner.custom_getter)
    with ExitStack() as stack:
        stack.enter_context(graph.as_default())
        path_of_names = graph.get_name_scope()
        path_of_names = f"{path_of_names}/" if path_of_names else ""
        if auxiliary_name_scope and name_scope:
            path_of_names = stack.enter_context(graph.name_scope(name_scope))
        if not isinstance(name_or_scope, VariableScope):
            inner.original_name_scope = path_of_names
        before = dict(opened.times_opened)
        opened.times_opened[inner.name] = opened.times_opened.get(inner.name, 0) + 1
        opened.scope = inner
        try:
            yield inner
        finally:
            opened.scope = outer
            if isinstance(name_or_scope, VariableScope):
                opened.times_opened = before
            else:  # What is opened below this scope counts anew, as in TensorFlow.
                prefix = f"{inner.name}/"
                for each in [n for n in opened.times_opened if n.startswith(prefix)]:
                    del opened.times_opened[each]


@export("variable_op_scope")
@contextmanager
def variable_op_scope(
    values: Sequence[Any] | None,
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """The old form of `variable_scope`, with `values` first."""
    with variable_scope(
        name_or_scope,
        default_name,
        values,
        initializer,
        regularizer,
        caching_device,
        partitioner,
        custom_getter,
        reuse,
        dtype,
        use_resource,
        constraint,
    ) as scope:
        yield scope


def _copy(scope: VariableScope, name: str, reuse: Any) -> VariableScope:
    return VariableScope(
        reuse,
        name,
        scope.initializer,
        scope.regularizer,
        scope.caching_device,
        scope.partitioner,
        scope.custom_getter,
        scope.original_name_scope,
        scope.dtype,
        scope.use_resource,
        scope.constraint,
    )


def _override(scope: VariableScope, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            setattr(scope, name, value)


def _wrapped(inner: Callable[..., Any], outer: Callable[..., Any] | None) -> Callable[..., Any]:
    """A custom getter inside the one of the scopes further out."""
    if outer is None:
        return inner

    def getter(get: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, get), *args, **kwargs)

    return getter


def _unique(opened: _Scopes, outer: VariableScope, name: str) -> str:
    prefix = f"{outer.name}/" if outer.name else ""
    candidate, index = name, 0
    while opened.times_opened.get(prefix + candidate):
        index += 1
        candidate = f"{name}_{index}"
    return candidate


@export("no_regularizer")
def no_regularizer(_: Any) -> None:
    """A regularizer that adds nothing, to switch off the scope's."""


@export("create_partitioned_variables")
def create_partitioned_variables(
    shape: Any,
    slicing: Sequence[int],
    initializer: Any,
    dtype: Any = float32,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Variable]:
    """The parts of a variable that is cut along one axis.

    Args:
        shape: The shape of the whole.
        slicing: The number of parts per axis; more than one for one axis at most.
        initializer: As for `get_variable`.
        dtype: The element type.
        trainable: Whether optimizers change the parts.
        collections: Where the parts are listed.
        name: The name of the whole; `PartitionedVariable`, made unique, when None.
        reuse: As for `variable_scope`.

    Raises:
        ValueError: More than one axis is cut, or shape and slicing differ in length.
    """
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a new Partitioned Variable must have the same length: "
            f"shape: {shape}, slicing: {slicing}"
        )
    if len(shape) < 1:
        raise ValueError(f"A new Partitioned Variable must have rank at least 1: shape: {shape}")

    with variable_scope(name, "PartitionedVariable", reuse=reuse):
        made = get_variable(
            "",
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=trainable,
            partitioner=lambda **_: list(slicing),
            collections=collections,
        )
        return list(made._get_variable_list())
