"""Variables of models: making them, listing them, choosing which to restore."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.variables.partitioned import PartitionedVariable


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    use_resource: bool | None = None,
    synchronization: Any = tf.VariableSynchronization.AUTO,
    aggregation: Any = tf.VariableAggregation.NONE,
) -> Any:
    """As `tf.get_variable`, on `device`, which may be a function of the operation."""
    getter: Callable[..., Any] = tf.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=tf.get_variable_scope().reuse)
    chosen = list(dict.fromkeys(collections)) if collections is not None else None
    if chosen is None:
        chosen = [tf.GraphKeys.GLOBAL_VARIABLES]
    with tf.device(device or ""):
        return getter(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=chosen,
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = tf.float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    use_resource: bool | None = None,
    synchronization: Any = tf.VariableSynchronization.AUTO,
    aggregation: Any = tf.VariableAggregation.NONE,
) -> Any:
    """As `variable`, listed among the model's variables too."""
    listed = [*(collections or []), tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=listed,
        caching_device=caching_device,
        device=device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def local_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """A variable of this process, not trained and not saved."""
    return _listed(tf.GraphKeys.LOCAL_VARIABLES, initial_value, validate_shape, name, use_resource)


def global_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """A variable that is saved but not trained."""
    return _listed(tf.GraphKeys.GLOBAL_VARIABLES, initial_value, validate_shape, name, use_resource)


def _listed(
    collection: str, value: Any, validate_shape: bool, name: str | None, use_resource: bool | None
) -> Any:
    return tf.Variable(
        value,
        trainable=False,
        collections=[collection],
        validate_shape=validate_shape,
        name=name,
        use_resource=use_resource,
    )


def add_model_variable(var: Any) -> None:
    """Lists a variable among the model's."""
    if not any(var is each for each in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)):
        tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, var)


def get_variables(
    scope: Any = None,
    suffix: str | None = None,
    collection: str = tf.GraphKeys.GLOBAL_VARIABLES,
) -> list[Any]:
    """The variables of a collection below a scope, whose names end in `suffix`."""
    if isinstance(scope, tf.VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = (scope or "") + ".*" + (suffix if ":" in suffix else f"{suffix}:0")
    return list(tf.get_collection(collection, scope))


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The model's variables, see `get_variables`."""
    return get_variables(scope, suffix, tf.GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The local variables, see `get_variables`."""
    return get_variables(scope, suffix, tf.GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The variables that are trained, see `get_variables`."""
    return get_variables(scope, suffix, tf.GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """The variables whose names end in `suffix`."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """The variables whose last name is that one."""
    suffix = f"/{given_name}:|^{given_name}:"
    return [each for each in get_variables(scope) if re.search(suffix, each.name)]


def get_unique_variable(var_op_name: str) -> Any:
    """The one variable of that name.

    Raises:
        ValueError: There is none, or none whose name that exactly is.
    """
    candidates = get_variables(scope=var_op_name)
    if not candidates:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    for each in candidates:
        if each.op.name == var_op_name:
            return each
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


def get_variable_full_name(var: Any) -> str:
    """The name under which a variable is saved: for a part of one, the name of the whole."""
    info = var._save_slice_info
    return str(info.full_name if info else var.op.name)


def get_variables_to_restore(
    include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[Any]:
    """The saved variables below scopes.

    Args:
        include: The scopes; all variables when None.
        exclude: Scopes whose variables are left out.

    Raises:
        TypeError: Something else than a list.
    """
    for what, given in (("include", include), ("exclude", exclude)):
        if given is not None and not isinstance(given, list | tuple):
            raise TypeError(f"{what} is provided but is not a list or a tuple.")
    if include is None:
        chosen = get_variables()
    else:
        chosen = [each for scope in include for each in get_variables(scope)]
    left_out = {each for scope in exclude or () for each in get_variables(scope)}
    return [each for each in chosen if each not in left_out]


def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """The variables whose names fit one of the first patterns and none of the others.

    Args:
        var_list: The variables.
        include_patterns: Regular expressions; all variables when None.
        exclude_patterns: Regular expressions.
        reg_search: Search anywhere in the name instead of at its start.
    """
    fits: Any = re.search if reg_search else re.match
    return [
        each
        for each in var_list
        if (include_patterns is None or any(fits(p, each.name) for p in include_patterns))
        and not any(fits(pattern, each.name) for pattern in exclude_patterns or ())
    ]


def assert_global_step(global_step_tensor: Any) -> None:
    """Checks that something can count steps, see `tf.train.assert_global_step`."""
    tf.train.assert_global_step(global_step_tensor)


def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The given step counter, checked, or the graph's.

    Raises:
        ValueError: The given one is not the graph's.
    """
    if global_step_tensor is None:
        return tf.train.get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


class VariableDeviceChooser:
    """Places variables on parameter servers round-robin; a function of the operation.

    Args:
        num_tasks: The number of parameter servers; 0 for none.
        job_name: Their job.
        device_type: `CPU` or `GPU`.
        device_index: Which one of the task.
        replica: The replica, None for none.
    """

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: int | None = None,
    ) -> None:
        self._job = job_name
        self._type = device_type
        self._index = device_index
        self._replica = replica
        self._tasks = num_tasks
        self._next = 0

    def __call__(self, op: Any) -> str:
        """The device of the next variable."""
        spec = tf.DeviceSpec(
            replica=self._replica, device_type=self._type, device_index=self._index
        )
        if self._tasks > 0:
            spec.job, spec.task = self._job, self._next
            self._next = (self._next + 1) % self._tasks
        return str(spec.to_string())


def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """The operation that sets a variable to zeros."""
    return tf.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), use_locking=use_locking).op


def parts_of(var: Any) -> list[Any]:
    """The parts of a partitioned variable, or the variable itself."""
    return list(var) if isinstance(var, PartitionedVariable) else [var]
