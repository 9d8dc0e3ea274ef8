"""`Optimizer`: what all optimizers share: gradients, slots, the train op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sparkflow._api import export
from sparkflow.differentiation.backward import gradients
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, get_default_graph, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.afterwards import branch_of
from sparkflow.ops.control.ordering import group, identity, tuple_of
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.indexing.segment import unsorted_segment_sum
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.state import state
from sparkflow.train.optimizers import strategy as replication
from sparkflow.train.optimizers.branch_update import left_by
from sparkflow.train.optimizers.conditional_update import Part, by_device, update_when
from sparkflow.train.optimizers.rounding import NARROW, rounding_attrs
from sparkflow.train.optimizers.slots import Slots, arithmetic_dtype
from sparkflow.variables.initialization import trainable_variables
from sparkflow.variables.trackable import Trackable
from sparkflow.variables.variable import Variable
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError

GradientAndVariable = tuple[Tensor | IndexedSlices | None, Variable]
_AGGREGATION_METHODS: Final = (0, 1, 2)
"""The numbers of `tf.AggregationMethod`, which all give the same sum."""
_VALID_DTYPES: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@export("train.Optimizer")
class Optimizer(Trackable):
    """Base of the optimizers: subclasses define `_apply_dense` and `_apply_sparse`.

    Subclasses written for TensorFlow 1 may use the protected methods below; they have its names.

    Args:
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op, and of the slots unless the subclass names them.

    Raises:
        ValueError: The name is empty.
    """

    GATE_NONE: Final = 0
    GATE_OP: Final = 1
    GATE_GRAPH: Final = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots = Slots()
        self._non_slots: dict[tuple[str, Graph], Variable] = {}
        self._read_before: Mapping[str, Tensor] = {}

    def get_name(self) -> str:
        """The name given to the optimizer."""
        return self._name

    def _trackable_children(self) -> dict[str, Any]:
        """The variables it has for all others together, of the graph that is open."""
        graph = get_default_graph().root
        return {name: v for (name, of), v in self._non_slots.items() if of is graph}

    # ------------------------------------------------------------------ for users

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """The operation of one training step: gradients of `loss`, then their application.

        Args:
            loss: A tensor; its elements are summed.
            global_step: A variable to count the step in, None for none.
            var_list: The variables to train; the trainable ones when None.
            gate_gradients: As for `compute_gradients`, as the next two and `grad_loss` are.
            aggregation_method: See `compute_gradients`.
            colocate_gradients_with_ops: See `compute_gradients`.
            name: Name of the operation.
            grad_loss: See `compute_gradients`.

        Raises:
            ValueError: `loss` depends on none of the variables.
        """
        pairs = self.compute_gradients(
            loss,
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            grad_loss,
        )
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(str(variable) for _, variable in pairs)
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not "
                f"support gradients, between variables [{names}] and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[GradientAndVariable]:
        """The gradients of `loss`, each with its variable; None where it does not depend on it.

        Args:
            loss: A tensor, whose elements are summed, or a function that makes one.
            var_list: The variables or tensors; the trainable variables when None.
            gate_gradients: `GATE_OP` makes the gradients of one operation available at once,
                `GATE_GRAPH` all of them, `GATE_NONE` none. In the stages of a divided model they
                come as the stages' turns have it.
            aggregation_method: One of `tf.AggregationMethod`.
            colocate_gradients_with_ops: Put each gradient where its forward operation is.
            grad_loss: What to multiply by; ones when None.

        Raises:
            ValueError: There are no variables; the loss or a variable is not floating point.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                f"Optimizer.GATE_GRAPH. Not {gate_gradients}"
            )
        if aggregation_method not in (None, *_AGGREGATION_METHODS):
            raise ValueError(f"Invalid aggregation_method specified {aggregation_method}.")
        loss = self._call_if_callable(loss)
        graph = graph_of((loss,))
        with graph.as_default():
            self._assert_valid_dtypes([graph.convert(loss, name="loss")])
            if grad_loss is not None:
                self._assert_valid_dtypes([grad_loss])
            variables = _flattened(trainable_variables() if var_list is None else var_list)
            if not variables:
                raise ValueError("No variables to optimize.")

            def compute(in_stages: bool) -> list[GradientAndVariable]:
                grads = gradients(
                    loss,
                    variables,
                    grad_ys=grad_loss,
                    gate_gradients=gate_gradients == self.GATE_OP and not in_stages,
                    aggregation_method=aggregation_method,
                    colocate_gradients_with_ops=colocate_gradients_with_ops or in_stages,
                )
                if gate_gradients == self.GATE_GRAPH and not in_stages:
                    grads = tuple_of(grads)
                return list(zip(grads, variables, strict=True))

            strategy = replication.current() or replication.AsyncReplication()
            pairs = strategy.compute_gradients(loss, compute)
        self._assert_valid_dtypes([each for grad, each in pairs if grad is not None])
        return pairs

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """The operation that changes the variables by their gradients.

        Args:
            grads_and_vars: As `compute_gradients` gives them.
            global_step: A variable to count the step in, None for none.
            name: Name of the operation.

        Raises:
            ValueError: There are no variables, or none has a gradient.
            TypeError: A gradient is neither a tensor nor `IndexedSlices`, nor to be made one.
            NotImplementedError: What has a gradient is a tensor, not a variable.
        """
        pairs = [(_gradient(grad, each), each) for grad, each in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        for _, each in pairs:
            if isinstance(each, Tensor):
                raise NotImplementedError("Trying to update a Tensor ", each)
            if not isinstance(each, Variable):
                raise NotImplementedError("Trying to optimize unsupported type ", each)
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(f"{str(variable)!r}" for _, variable in pairs)
            raise ValueError(f"No gradients provided for any variable: [{names}].")
        strategy = replication.current() or replication.AsyncReplication()
        update = self._replicated(strategy, pairs, global_step, name)
        strategy.updates.append(update)
        return update

    def _replicated(
        self,
        strategy: replication.Replication,
        pairs: Sequence[tuple[Any, Any]],
        global_step: Any,
        name: str | None,
        condition: Any = None,
    ) -> Operation:
        """The update as a strategy has it, made outside of branches where others wait for it."""
        graph = get_default_graph()
        if not graph.building_function or (
            condition is None and not strategy.is_waited_for and len(self._devices(pairs)) == 1
        ):
            return strategy.apply_gradients(self, pairs, global_step, name, condition)
        branch = branch_of(graph)
        if branch is not None:
            return left_by(
                branch,
                pairs,
                condition,
                lambda outside, holds: self._replicated(
                    strategy, outside, global_step, name, holds
                ),
            )
        if strategy.is_waited_for:
            raise InvalidArgumentError(
                message=f"{self._name!r} would update variables inside a loop or a function, with "
                f"{type(strategy).__name__}: replicas make one update per step together. Make the "
                "update outside, and run more steps"
            )
        return strategy.apply_gradients(self, pairs, global_step, name, condition)

    def apply_dense_and_sparse(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """`apply_gradients` without asking a replication strategy."""
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        variables = [variable for _, variable in pairs]
        graph = graph_of(variables)
        with graph.as_default():
            with graph.init_scope():
                self._create_slots(variables)
            with graph.name_scope(name or self._name) as scope:
                self._prepare()
                updates = [self._update(grad, variable) for grad, variable in pairs]
                finish = scope if global_step is None else "update"
                finished = self._finish(updates, finish)
                if global_step is None:
                    train_op = finished
                else:
                    with graph.control_dependencies([finished]), graph.colocate_with(global_step):
                        one = graph.convert(1, global_step.dtype.base, "value")
                        train_op = state.assign_add(global_step, one, name=scope).op
        if isinstance(train_op, Tensor):
            train_op = train_op.op
        collected = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in collected:
            collected.append(train_op)
        return train_op  # type: ignore[no-any-return]  # what `_finish` gave

    def apply_where(
        self,
        condition: Tensor,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """`apply_dense_and_sparse` in the steps in which a condition holds.

        Args:
            condition: [] bool.
            grads_and_vars: As for `apply_gradients`, like the others.
            global_step: See there.
            name: See there.
        """
        devices = by_device(grads_and_vars)
        parts = [Part(device, condition, pairs) for device, pairs in devices.items()]
        return group(*update_when(self, parts, global_step, name))

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """The slot variable of `var`, None when there is none."""
        return self._slots.get(var, name)

    def get_slot_names(self) -> list[str]:
        """The names of the slots in use, sorted."""
        return self._slots.names()

    def variables(self) -> list[Variable]:
        """Every variable the optimizer made in the default graph, sorted by name."""
        graph = get_default_graph()
        made = [*self._slots.all(), *self._non_slots.values()]
        return sorted(
            (each for each in made if each.graph is graph), key=lambda variable: variable.name
        )

    @property
    def _own_variables(self) -> list[Variable]:
        return list(self._non_slots.values())

    @property
    def _has_finish(self) -> bool:
        return type(self)._finish is not Optimizer._finish

    # ------------------------------------------------------------------ for subclasses to give

    def _valid_dtypes(self) -> set[Any]:
        """The dtypes that losses, gradients and variables may have."""
        return set(_VALID_DTYPES)

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Makes the slots of the variables, outside every control dependency."""

    def _prepare(self) -> None:
        """Makes the tensors of the hyperparameters."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        """The update of `var` by a dense gradient."""
        return self._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        """The update of rows of `var`, each row at most once."""
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _resource_apply_dense(self, grad: Tensor, handle: Variable) -> Any:
        """What TensorFlow calls for resource variables; used where `_apply_dense` is not given."""
        raise NotImplementedError(f"{type(self).__name__} gives no _apply_dense")

    def _resource_apply_sparse(self, grad: Tensor, handle: Variable, indices: Tensor) -> Any:
        """What TensorFlow calls for resource variables; used where `_apply_sparse` is not given."""
        raise NotImplementedError(f"{type(self).__name__} gives no _apply_sparse")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Any:
        """The update of rows that may be in several times: they are added up first.

        In float32, as is what `_apply_sparse` is given, where the variable is stored as bfloat16.
        """
        unique, positions = arrays.unique(grad.indices)
        count = arrays.shape(unique)[0]
        values = elementwise.cast(grad.values, arithmetic_dtype(var))
        summed = unsorted_segment_sum(values, positions, count)
        return self._apply_sparse(IndexedSlices(summed, unique, grad.dense_shape), var)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        """What happens after all updates; the name is that of the resulting operation."""
        return group(*update_ops, name=name_scope)

    # ------------------------------------------------------------------ for subclasses to use

    def _call_if_callable(self, param: Any) -> Any:
        """What a function gives, anything else as it is."""
        return param() if callable(param) and not isinstance(param, Symbolic) else param

    def _hyperparameter(self, value: Any, name: str) -> Tensor:
        """A number, tensor, or function giving one, as a tensor."""
        value = self._call_if_callable(value)
        return graph_of((value,)).convert(value, None, name)

    def _changed(self, op_type: str, var: Variable, *inputs: Any, **attrs: Any) -> Operation:
        """An `Apply...` op on `var`; tensors among the inputs are cast to its dtype.

        Where it is stored as bfloat16, the op that computes in float32 and rounds once.
        """
        dtype = arithmetic_dtype(var)
        if dtype is not var.dtype.base:
            op_type, attrs = f"{NARROW}{op_type}", {**attrs, **rounding_attrs(var)}
        cast = [
            elementwise.cast(each, dtype)
            if isinstance(each, Tensor) and not each.dtype.is_integer
            else each
            for each in inputs
        ]
        updated: Tensor = apply_op(op_type, var, *cast, use_locking=self._use_locking, **attrs)
        return updated.op

    def _subtracted(self, var: Variable, change: Tensor) -> Operation:
        """`var -= change`, rounded as `_changed` does."""
        if arithmetic_dtype(var) is var.dtype.base:
            return state.assign_sub(var, change, use_locking=self._use_locking).op
        return self._changed("ApplyGradientDescent", var, constants.constant(1.0), change)

    def _rows_subtracted(self, var: Variable, rows: Tensor, change: Tensor) -> Operation:
        """The same of rows of `var`."""
        if arithmetic_dtype(var) is var.dtype.base:
            return state.scatter_sub(var, rows, change, self._use_locking).op
        one = constants.constant(1.0)
        return self._changed("SparseApplyGradientDescent", var, one, change, rows)

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Variable:
        """A slot of zeros like `var`, made when there is none."""
        return self._slots.zeros(var, slot_name, op_name)

    def _get_or_make_slot(self, var: Variable, val: Any, slot_name: str, op_name: str) -> Variable:
        """A slot that starts from `val`, made when there is none."""
        return self._slots.get_or_create(var, slot_name, op_name, lambda: val)

    def _get_or_make_slot_with_initializer(
        self,
        var: Variable,
        initializer: Callable[..., Any],
        shape: Any,
        dtype: Any,
        slot_name: str,
        op_name: str,
    ) -> Variable:
        """A slot that starts from what the initializer makes, made when there is none."""
        return self._slots.get_or_create(
            var, slot_name, op_name, lambda: initializer(shape, dtype=dtype)
        )

    def _create_non_slot_variable(
        self, initial_value: Any, name: str, colocate_with: Variable
    ) -> Variable:
        """A variable of the optimizer itself, one of a name per graph."""
        graph = colocate_with.graph
        key = (name, graph)
        if key not in self._non_slots:
            with graph.colocate_with(colocate_with, ignore_existing=True):
                self._non_slots[key] = Variable(initial_value, name=name, trainable=False)
            if self._slots.made is not None:
                self._slots.made()
        return self._non_slots[key]

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Variable:
        """The variable of the optimizer itself that has this name.

        Raises:
            KeyError: There is none in the graph, which is the default graph when None.
        """
        return self._non_slots[name, (graph or get_default_graph()).root]

    def _non_slot_value(self, name: str) -> Tensor:
        """The value of a variable of the optimizer itself, as an update of variables needs it."""
        found = self._read_before.get(name)
        return self._get_non_slot_variable(name).value() if found is None else found

    @contextmanager
    def _non_slots_read_before(self) -> Iterator[None]:
        """Has `_non_slot_value` give what is read here, outside every function.

        The body of a function may then be on another device than these variables.
        """
        root = get_default_graph().root
        self._read_before = {
            name: identity(identity(variable.value()))
            for (name, graph), variable in self._non_slots.items()
            if graph is root
        }
        try:
            yield
        finally:
            self._read_before = {}

    def _assert_valid_dtypes(self, tensors: Sequence[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            dtype = tensor.dtype.base
            if dtype not in valid:
                names = [each.name for each in sorted(valid, key=lambda each: each.number)]
                raise ValueError(f"Invalid type {dtype!r} for {tensor.name}, expected: {names}.")

    # ------------------------------------------------------------------ inside

    def _devices(self, pairs: Sequence[tuple[Any, Any]]) -> set[str]:
        """Where an update changes variables."""
        return {variable.device for gradient, variable in pairs if gradient is not None}

    def _update(self, grad: Tensor | IndexedSlices, variable: Variable) -> Any:
        graph = graph_of((variable,))
        with graph.name_scope(f"update_{variable.op.name}"), graph.colocate_with(variable):
            if isinstance(grad, IndexedSlices):
                if variable.constraint is not None:
                    raise RuntimeError("Cannot use a constraint function on a sparse variable.")
                return self._apply_sparse_duplicate_indices(grad, variable)
            update = self._apply_dense(grad, variable)
            if variable.constraint is None:
                return update
            with graph.control_dependencies([update]):
                return state.assign(variable, variable.constraint(variable.read_value())).op


class WrappingOptimizer(Optimizer):
    """Base of optimizers that change when, or which, gradients another one applies.

    Args:
        opt: The other optimizer, which computes gradients and has the slots.
        use_locking: As for `Optimizer`.
        name: As for `Optimizer`.
    """

    def __init__(self, opt: Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[GradientAndVariable]:
        """The gradients that the other optimizer computes."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        """A slot of the other optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """The slot names of the other optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Variable]:
        """The variables of the other optimizer."""
        return self._opt.variables()


def _gradient(grad: Any, variable: Any) -> Any:
    if grad is None or isinstance(grad, Tensor | IndexedSlices):
        return grad
    try:
        return grad._to_tensor() if isinstance(grad, Symbolic) else variable.graph.convert(grad)
    except (TypeError, AttributeError) as error:
        raise TypeError(
            f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {grad!r}"
        ) from error


def _flattened(items: Any) -> list[Any]:
    """The variables in nested lists, tuples and partitioned variables."""
    if isinstance(items, Symbolic):
        return [items]
    if isinstance(items, dict):
        return [each for key in sorted(items) for each in _flattened(items[key])]
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise TypeError(f"Argument is not a variable or tensor: {items!r}")
    return [each for item in items for each in _flattened(item)]
