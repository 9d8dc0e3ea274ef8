"""The base of all layers: name, variable scope, variables, losses, updates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph, graph_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers import named
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.shape import arrays
from sparkflow.variables.creators import VariableSynchronization
from sparkflow.variables.trackable import Trackable
from sparkflow.variables.variable_scope import VariableScope, get_variable, variable_scope
from sparkflow_runtime.dtypes import as_dtype

Activation = Callable[[Tensor], Tensor]
_NAMES = ("__layer_names__",)  # of no interest to those who list or save collections
"""The collection in which a graph counts the names given to layers."""


class Layer(Trackable):
    """A function of tensors with variables of its own, made at the first call.

    Subclasses make variables in `build` by `add_weight` and compute in `call`.

    Args:
        trainable: Whether optimizers change the variables.
        name: The variable scope; the class's name in snake case when None, made unique.
        dtype: The dtype of the variables; that of the first input when None.
        kwargs: `activity_regularizer`, a function of the output whose result is a loss; `_scope`
            and `_reuse`, a scope to open and whether to share its variables.

    Attributes:
        built: Whether the variables are made.
        input_spec: What inputs must be like, an `InputSpec` or None.
        trainable: Whether optimizers change the variables.
        dtype: The dtype of the variables as text, None before the first call.
    """

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._activity_regularizer = named.regularizer(kwargs.pop("activity_regularizer", None))
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {sorted(kwargs)[0]!r}")
        self.trainable = trainable
        self.built = False
        self.input_spec: InputSpec | None = None
        self._dtype = None if dtype is None else as_dtype(dtype).base
        self._scope: VariableScope | None = None
        self._graph: Graph | None = None
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        self._losses: list[tuple[Any, Any]] = []
        self._updates: list[tuple[Any, Any]] = []
        self._inputs: Any = None
        self._outputs: Any = None
        self._base_name = _snake_case(type(self).__name__) if name is None else name
        self._name = self._base_name if name is not None else _numbered(self._base_name)
        if scope:
            with variable_scope(scope) as captured:
                self._scope = captured

    def _trackable_children(self) -> dict[str, Any]:
        """Its public attributes; the lists of all weights are in others."""
        return {name: item for name, item in vars(self).items() if not name.startswith("_")}

    @property
    def name(self) -> str:
        """The layer's name."""
        return self._name

    @property
    def dtype(self) -> Any:
        """The name of the variables' dtype, None before the first call."""
        return None if self._dtype is None else self._dtype.name

    @property
    def graph(self) -> Graph | None:
        """The graph of the variables."""
        return self._graph

    @property
    def scope_name(self) -> str:
        """The path of the layer's variable scope.

        Raises:
            ValueError: The layer was not called yet.
        """
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self._name}" has not '
                "been used yet. The scope name is determined the first time the layer instance is "
                "called. You must therefore call the layer before querying `scope_name`."
            )
        return self._scope.name

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that optimizers change."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        if self.trainable:
            return list(self._non_trainable_weights)
        return self._trainable_weights + self._non_trainable_weights

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return self.trainable_weights + self.non_trainable_weights

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    @property
    def losses(self) -> list[Any]:
        """The regularization losses of variables and of outputs."""
        return [loss for loss, _ in self._losses]

    @property
    def updates(self) -> list[Any]:
        """The operations to run with every training step."""
        return [update for update, _ in self._updates] if self.trainable else []

    @property
    def activity_regularizer(self) -> Any:
        """The function of the output whose result is a loss."""
        return self._activity_regularizer

    @property
    def input(self) -> Any:
        """The input of the last call of the layer.

        Raises:
            AttributeError: It was not called.
        """
        return self._known(self._inputs, "inputs")

    @property
    def output(self) -> Any:
        """The output of the last call of the layer.

        Raises:
            AttributeError: It was not called.
        """
        return self._known(self._outputs, "outputs")

    @property
    def input_shape(self) -> Any:
        """The shape of `input` as a tuple."""
        return tuple(self.input.shape.as_list())

    @property
    def output_shape(self) -> Any:
        """The shape of `output` as a tuple."""
        return tuple(self.output.shape.as_list())

    def _known(self, value: Any, what: str) -> Any:
        if value is None:
            raise AttributeError(f"Layer {self.name} has no {what}: it was never called.")
        return value

    def build(self, input_shape: Any) -> None:
        """Creates the variables; overridden by layers that have any.

        Args:
            input_shape: A `TensorShape`, or a list of them.
        """
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs for `inputs`; overridden by every layer."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The static shape of the output for inputs of a shape.

        Raises:
            NotImplementedError: The layer does not tell.
        """
        raise NotImplementedError(type(self).__name__)

    def add_weight(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A variable of the layer, by `get_variable` in its scope, wherever it is called.

        Args:
            name: Its name below the layer's scope.
            shape: Its shape.
            dtype: Its dtype, the layer's when None.
            initializer: As for `get_variable`, or a name.
            regularizer: As for `get_variable`, or a name.
            trainable: Whether optimizers change it; True when None.
            constraint: As for `get_variable`, or a name.
            use_resource: As for `get_variable`.
            synchronization: ON_READ makes it not trainable; else accepted for TensorFlow's sake.
            aggregation: Accepted for TensorFlow's sake.
            partitioner: As for `get_variable`.
            kwargs: Passed on.

        Raises:
            ValueError: It is to be trainable and ON_READ.
        """
        if synchronization is VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError(
                    "Synchronization value can be set to VariableSynchronization.ON_READ only for "
                    "non-trainable variables. You have specified trainable=True and "
                    "synchronization=VariableSynchronization.ON_READ."
                )
            trainable = False
        trains = trainable is None or trainable
        if self._scope is None:
            self._open_scope(None)
        graph = get_default_graph()
        listed = graph.get_collection_ref(GraphKeys.REGULARIZATION_LOSSES)
        before = len(listed)
        with self._entered(True if self.built else self._reuse):
            variable = get_variable(
                name,
                shape=shape,
                dtype=as_dtype(dtype).base if dtype is not None else self._dtype,
                initializer=named.initializer(initializer),
                regularizer=named.regularizer(regularizer),
                trainable=trains and self.trainable,
                constraint=named.constraint(constraint),
                use_resource=use_resource,
                partitioner=partitioner,
                **kwargs,
            )
        self._losses.extend((loss, None) for loss in listed[before:])
        group = self._trainable_weights if trains else self._non_trainable_weights
        if not any(variable is each for each in group):
            group.append(variable)
        return variable

    add_variable = add_weight

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Lists losses of the layer, and in the graph's regularization losses.

        Args:
            losses: A tensor or a list of them.
            inputs: The tensors they depend on, None for none.
        """
        for loss in losses if isinstance(losses, list | tuple) else [losses]:
            self._losses.append((loss, inputs))
            graph_of((loss,)).add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Lists operations to run with every training step, and in `UPDATE_OPS`.

        Args:
            updates: An operation or a list of them.
            inputs: The tensors they depend on, None for none.
        """
        for update in updates if isinstance(updates, list | tuple) else [updates]:
            self._updates.append((update, inputs))
            if self.trainable:
                graph_of((update,)).add_to_collection(GraphKeys.UPDATE_OPS, update)

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """The losses that depend on `inputs`; for None those that depend on none."""
        return [loss for loss, source in self._losses if _same(source, inputs)]

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """The updates that depend on `inputs`; for None those that depend on none."""
        return [update for update, source in self._updates if _same(source, inputs)]

    def count_params(self) -> int:
        """The number of elements of all variables.

        Raises:
            ValueError: The variables are not made yet.
        """
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't built. You "
                f"can build it manually via: `{self.name}.build(batch_input_shape)`."
            )
        return sum(int(variable.shape.num_elements()) for variable in self.weights)

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as calling the layer."""
        return self(inputs, *args, **kwargs)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The outputs for `inputs`; makes the variables at the first call.

        Raises:
            ValueError: The inputs are not what the layer needs, or of another graph.
        """
        scope = kwargs.pop("scope", None)
        tensors = _converted(inputs)
        flat = list(_flat(tensors))
        graph = graph_of(flat)
        if self._graph is None:
            self._graph = graph.root
        elif self._graph is not graph.root and self.weights:
            raise ValueError(
                f"Input graph and Layer graph are not the same: {flat} are not of the graph in "
                f"which {self.name} was built"
            )
        with graph.as_default():
            self._open_scope(scope)
            assert self._scope is not None
            reuse = True if self.built else self._reuse
            with self._entered(reuse):
                if not self.built:
                    self._check(flat)
                    if self._dtype is None and flat:
                        self._dtype = flat[0].dtype.base
                    self.build(_shapes(tensors))
                    self.built = True
                self._check(flat)
                outputs = self.call(tensors, *args, **kwargs)
                if self._activity_regularizer is not None:
                    self._regularize(outputs, tensors)
        self._inputs, self._outputs = tensors, outputs
        return outputs

    @contextmanager
    def _entered(self, reuse: Any) -> Iterator[None]:
        assert self._scope is not None
        graph = get_default_graph()
        names = self._scope.original_name_scope
        with (
            variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False),
            graph.name_scope(names if names.endswith("/") or not names else f"{names}/"),
        ):
            yield

    def _open_scope(self, scope: Any) -> None:
        if self._scope is not None:
            return
        if self._reuse:
            with variable_scope(self._base_name if scope is None else scope) as captured:
                self._scope = captured
        else:
            with variable_scope(scope, default_name=self._base_name) as captured:
                self._scope = captured

    def _check(self, flat: Sequence[Tensor]) -> None:
        if self.input_spec is not None:
            for index, tensor in enumerate(flat):
                self.input_spec.check(tensor, index, self.name)

    def _regularize(self, outputs: Any, inputs: Any) -> None:
        with get_default_graph().name_scope("ActivityRegularizer"):
            for output in _flat(outputs):
                loss = self._activity_regularizer(output)
                batch = elementwise.cast(arrays.shape(output)[0], loss.dtype.base)
                self.add_loss(loss / batch, inputs)


def _same(source: Any, inputs: Any) -> bool:
    if source is None or inputs is None:
        return source is None and inputs is None
    wanted = {id(each) for each in _flat(inputs)}
    return any(id(each) in wanted for each in _flat(source))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _flat(value[key])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _converted(inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return {key: _converted(value) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple) and any(isinstance(x, Symbolic) for x in _flat(inputs)):
        return type(inputs)([_converted(each) for each in inputs])
    return convert_to_tensor(inputs, name="inputs")


def _shapes(tensors: Any) -> Any:
    if isinstance(tensors, dict):
        return {key: _shapes(value) for key, value in tensors.items()}
    if isinstance(tensors, list | tuple):
        return [_shapes(each) for each in tensors]
    return tensors.shape


def _snake_case(name: str) -> str:
    spread = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    snake = re.sub("([a-z])([A-Z])", r"\1_\2", spread).lower()
    return f"private{snake}" if snake.startswith("_") else snake


def _numbered(name: str) -> str:
    """The name with a number, counted per graph from 1 as TensorFlow 1.15 does."""
    given = get_default_graph().get_collection_ref(_NAMES)
    if not given:
        given.append({})
    counts: dict[str, int] = given[0]
    counts[name] = counts.get(name, 0) + 1
    return f"{name}_{counts[name]}"
