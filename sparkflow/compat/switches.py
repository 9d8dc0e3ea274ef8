"""TensorFlow 2's switches, for programs that turn its behaviour off.

sparkflow has TensorFlow 1's behaviour, so that switches to it change nothing. They are functions of
their own so that such programs run unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkflow._api import export
from sparkflow.variables.resource_switch import (
    disable_resource_variables as disable_resource_variables,
    enable_resource_variables as enable_resource_variables,
    resource_variables_enabled as resource_variables_enabled,
)
from sparkflow_runtime.errors import UnimplementedError


@dataclass(slots=True)
class _Chosen:
    control_flow_v2: bool = True


_chosen = _Chosen()


@export("disable_v2_behavior")
def disable_v2_behavior() -> None:
    """Changes nothing: this is TensorFlow 1's behaviour."""
    disable_resource_variables()


@export("enable_v2_behavior")
def enable_v2_behavior() -> None:
    """Not possible here; `tf.enable_eager_execution` turns on the part that there is.

    Raises:
        UnimplementedError: Always.
    """
    raise UnimplementedError(
        message="This is TensorFlow 1's behaviour; tf.enable_eager_execution computes at once"
    )


@export("enable_v2_tensorshape")
def enable_v2_tensorshape() -> None:
    """Not possible here.

    Raises:
        UnimplementedError: Always.
    """
    raise UnimplementedError(
        message="Sizes of shapes are Dimensions, as in TensorFlow 1; tf.compat.dimension_value and "
        "TensorShape.as_list give integers"
    )


@export("disable_v2_tensorshape")
def disable_v2_tensorshape() -> None:
    """Changes nothing: sizes of shapes are `Dimension`s, as in TensorFlow 1."""


@export("disable_tensor_equality")
def disable_tensor_equality() -> None:
    """Changes nothing: `==` compares tensors by identity, as in TensorFlow 1."""


@export("enable_tensor_equality")
def enable_tensor_equality() -> None:
    """Not possible here.

    Raises:
        UnimplementedError: Always.
    """
    raise UnimplementedError(
        message="Tensors are compared by identity, as in TensorFlow 1; use tf.equal"
    )


@export("enable_control_flow_v2")
def enable_control_flow_v2() -> None:
    """Makes `control_flow_v2_enabled` true; conditions and loops are functional in any case."""
    _chosen.control_flow_v2 = True


@export("disable_control_flow_v2")
def disable_control_flow_v2() -> None:
    """Makes `control_flow_v2_enabled` false; conditions and loops are functional in any case."""
    _chosen.control_flow_v2 = False


@export("control_flow_v2_enabled")
def control_flow_v2_enabled() -> bool:
    """Whether the program has not turned it off."""
    return _chosen.control_flow_v2
