"""The variables of a graph by name: what `get_variable` finds or makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.ops.shape import arrays
from sparkflow.variables import initializers
from sparkflow.variables.partitioned import (
    PartitionedVariable,
    PartitionInfo,
    called_partitioner,
    parts_of,
)
from sparkflow.variables.save_slice import SaveSliceInfo
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import DType, as_dtype, string


class VariableStore:
    """The variables that `get_variable` made in one graph.

    Args:
        graph: The graph.

    Attributes:
        variables: By full name; parts of partitioned ones as `name/part_0`.
        partitioned: The partitioned ones by full name.
    """

    def __init__(self, graph: Graph) -> None:
        self.variables: dict[str, Any] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}
        self._graph = graph

    def get_variable(
        self,
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
        **replication: Any,
    ) -> Any:
        """The variable of that full name, see `sparkflow.get_variable`.

        A custom getter is called with the getter and all arguments instead.
        """
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError(f"Passed a custom_getter which is not callable: {custom_getter}")
        arguments = {
            "shape": shape,
            "dtype": dtype,
            "initializer": initializer,
            "regularizer": regularizer,
            "reuse": reuse,
            "trainable": trainable,
            "collections": collections,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "validate_shape": validate_shape,
            "use_resource": use_resource,
            "constraint": constraint,
            **replication,
        }
        if custom_getter is None:
            return self._find_or_make(name, **arguments)
        if not _takes(custom_getter, "constraint"):
            del arguments["constraint"]
        return custom_getter(self._find_or_make, name, **arguments)

    def _find_or_make(
        self,
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
        constraint: Any = None,
        **replication: Any,
    ) -> Any:
        kind = as_dtype("float32" if dtype is None else dtype).base
        given = {
            "regularizer": regularizer,
            "trainable": trainable,
            "collections": collections,
            "caching_device": caching_device,
            "validate_shape": validate_shape,
            "constraint": constraint,
            "use_resource": use_resource,
            **replication,
        }
        is_scalar = isinstance(shape, list | tuple) and not shape
        # As TensorFlow, not for AUTO_REUSE.
        is_known = reuse is True and partitioner is None and name in self.partitioned
        if is_known or (partitioner is not None and not is_scalar):
            return self._partitioned(name, shape, kind, initializer, reuse, partitioner, given)
        if f"{name}/part_0" in self.variables:
            raise ValueError(
                "No partitioner was provided, but a partitioned version of the variable was "
                f"found: {name}/part_0. Perhaps a variable of the same name was already created "
                "with partitioning?"
            )
        return self._single(name, shape, kind, initializer, reuse, None, given)

    # ------------------------------------------------------------------ one piece

    def _single(
        self,
        name: str,
        shape: Any,
        dtype: DType,
        initializer: Any,
        reuse: Any,
        partition_info: PartitionInfo | None,
        given: dict[str, Any],
    ) -> Any:
        # In eager execution whoever made a variable keeps it: a second one is another one.
        existing = None if self._graph.is_eager else self.variables.get(name)
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        asked = TensorShape(shape)
        if existing is not None:
            if not reuse:
                raise ValueError(
                    f"Variable {name} already exists, disallowed. Did you mean to set reuse=True "
                    "or reuse=tf.AUTO_REUSE in VarScope? Originally defined at:\n\n"
                    f"{existing.op.source}"
                )
            if not asked.is_compatible_with(existing.shape):
                raise ValueError(
                    f"Trying to share variable {name}, but specified shape {asked} and found "
                    f"shape {existing.shape}."
                )
            if not dtype.is_compatible_with(existing.dtype):
                raise ValueError(
                    f"Trying to share variable {name}, but specified dtype {dtype.name} and found "
                    f"dtype {existing.dtype.name}."
                )
            return existing
        if reuse is True and not self._graph.is_eager:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). Did "
                "you mean to set reuse=tf.AUTO_REUSE in VarScope?"
            )
        made = self._make(name, asked, dtype, initializer, partition_info, **given)
        if not self._graph.is_eager:
            self.variables[name] = made
        return made

    def _make(
        self,
        name: str,
        shape: TensorShape,
        dtype: DType,
        initializer: Any,
        partition_info: PartitionInfo | None,
        regularizer: Any,
        validate_shape: bool,
        **given: Any,
    ) -> Any:
        graph = self._graph
        from_value = initializer is not None and not callable(initializer)
        if initializer is None:
            initializer = _default_initializer(name, dtype)
        initial_value: Any = initializer
        kind: DType | None = dtype
        if from_value:
            kind = None
        else:
            if isinstance(initializer, type):
                initializer = initializer()
            if shape.is_fully_defined():
                initial_value = _called(initializer, shape, dtype, partition_info)
            elif shape.ndims is None and _takes_nothing(initializer):
                initial_value, kind = initializer, None
            elif not validate_shape and shape.ndims is not None:
                initial_value = _called(initializer, shape, dtype, partition_info)
            else:
                raise ValueError(
                    f"Shape of a new variable ({name}) must be fully defined, but instead was "
                    f"{shape}."
                )
        made = Variable(
            initial_value, name=name, dtype=kind, validate_shape=validate_shape, **given
        )
        if regularizer is not None:
            # Outside of branches and loops, where its users are.
            with (
                graph.init_scope(),
                graph.colocate_with(made.op),
                graph.name_scope(f"{name}/Regularizer/"),
            ):
                loss = regularizer(made)
            if loss is not None:
                graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
        return made

    # ------------------------------------------------------------------ several parts

    def _partitioned(
        self,
        name: str,
        shape: Any,
        dtype: DType,
        initializer: Any,
        reuse: Any,
        partitioner: Any,
        given: dict[str, Any],
    ) -> PartitionedVariable:
        from_value = initializer is not None and not callable(initializer)
        if partitioner is not None and not callable(partitioner):
            raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
        if name in self.variables:
            raise ValueError(
                "A partitioner was provided, but an unpartitioned version of the variable was "
                f"found: {name}.  Perhaps a variable of the same name was already created without "
                "partitioning?"
            )
        if from_value:
            initializer = self._graph.convert(initializer)
            if shape is not None and not TensorShape(shape).is_compatible_with(initializer.shape):
                raise ValueError("If initializer is a constant, do not specify shape.")
        asked = TensorShape(initializer.shape if from_value else shape)
        existing = self.partitioned.get(name)
        if existing is not None:
            return self._checked(existing, asked, dtype, reuse, partitioner)
        if reuse is True:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with "
                "tf.get_variable(). Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
        partitions = called_partitioner(partitioner, asked, dtype)
        full_shape = [int(size) for size in asked.as_list() if size is not None]
        parts = []
        for index, (offset, part_shape) in enumerate(parts_of(full_shape, partitions)):
            path = f"{name}/part_{index}"
            part_initializer, kept_shape = initializer, part_shape
            if from_value:
                with self._graph.init_scope():
                    part_initializer = arrays.slice(initializer, offset, part_shape)
                kept_shape = None
            info = PartitionInfo(full_shape, offset)
            part = self._single(path, kept_shape, dtype, part_initializer, reuse, info, given)
            part._set_save_slice_info(SaveSliceInfo(name, full_shape, offset, part_shape))
            parts.append(part)
        made = PartitionedVariable(name, asked, dtype, parts, partitions)
        self.partitioned[name] = made
        return made

    def _checked(
        self,
        existing: PartitionedVariable,
        shape: TensorShape,
        dtype: DType,
        reuse: Any,
        partitioner: Any,
    ) -> PartitionedVariable:
        name = existing.name
        if not reuse:
            raise ValueError(
                f"Partitioned variable with name {name} already exists. Did you mean to set "
                "reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
            )
        if not shape.is_compatible_with(existing.shape):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified shape {shape} and "
                f"found shape {existing.shape}."
            )
        if not dtype.is_compatible_with(existing.dtype):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified dtype {dtype.name} "
                f"and found dtype {existing.dtype.name}."
            )
        if partitioner is None:
            return existing
        wanted = called_partitioner(partitioner, existing.shape, dtype)
        if wanted != existing._get_partitions():
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified partitions {wanted} "
                f"and found partitions {existing._get_partitions()}"
            )
        return existing


def _called(
    initializer: Callable[..., Any],
    shape: TensorShape,
    dtype: DType,
    partition_info: PartitionInfo | None,
) -> Callable[[], Any]:
    """The call of an initializer, which may take the part it makes, or nothing at all."""
    if _takes_nothing(initializer):
        return initializer
    if partition_info is not None and _takes(initializer, "partition_info"):
        return lambda: initializer(shape.as_list(), dtype=dtype, partition_info=partition_info)
    return lambda: initializer(shape.as_list(), dtype=dtype)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built-in functions tell nothing
        return [inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)]


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function can be called without arguments only."""
    return not _parameters(function)


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name, or takes any keyword."""
    return any(
        each.name == name or each.kind is inspect.Parameter.VAR_KEYWORD
        for each in _parameters(function)
    )


def _default_initializer(name: str, dtype: DType) -> Any:
    if dtype.is_floating:
        return initializers.GlorotUniform()
    if dtype.is_integer or dtype.is_bool or dtype is string:
        return initializers.Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype} is required")
