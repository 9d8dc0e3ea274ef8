"""Variables by handle, as newer TensorFlow clients create them.

The handle is, at run time, the `resources.variable.Variable` that a reference would be. Updates are
those of the ops with a reference (`state`, `scatter`, `scatter_nd`, `training`), given a handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.indexing import scatter_nd  # noqa: F401 - its ops are looked up below
from sparkflow_runtime.ops.indexing.gather import gather_into
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.optimizers import (  # all updates get a form for handles below
    apply_gradient,
)
from sparkflow_runtime.ops.registry import contains, imported_ops, lookup, register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    int_attr,
    list_attr,
    shape_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.state import (
    scatter,  # noqa: F401 - its ops are looked up below
    strided_assign,
    variable_ops,
)
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

_KERNELS = {"CPU": None, "GPU": None}


class _HandleOp(Op):
    stateful = True
    keeps_inputs = False
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable


@register
class VarHandleOp(_HandleOp):
    """The handle of the variable of this name on the task, created at first use."""

    is_variable = True
    quiet = True
    capturable = True
    outputs = "resource: resource"
    attrs = {
        "container": string_attr(""),
        "shared_name": string_attr(""),
        "debug_name": string_attr(""),
        "dtype": type_attr(dtypes.ALL),
        "shape": shape_attr(),
        "allowed_devices": list_attr("string", []),
    }
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the variable, see `variable_ops.VariableV2`."""
        return lookup("VariableV2").bind(node, context)


@register
class ReadVariableOp(_HandleOp):
    """The value of a variable: a copy, which later updates do not reach."""

    capturable = True
    only_reads = True
    reads_variable = True
    inputs = "resource: resource"
    outputs = "value: dtype"
    attrs = {"dtype": type_attr(dtypes.ALL)}

    def infer(self, node: Inference) -> list[Shape]:
        """The variable's shape, if the graph determines it."""
        return [node.variable_shape(0)]

    def compute(self, xp: Any, resource: Variable) -> Array:
        """Raises FailedPreconditionError when it is uninitialised."""
        with resource.lock:  # not in the middle of another step's update
            return resource.read().copy()

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any]:
        """The handle stands for the value."""
        return (dy,)


@register
class VarIsInitializedOp(_HandleOp):
    """Whether a value has been assigned to the variable."""

    only_reads = True
    inputs = "resource: resource"
    outputs = "is_initialized: bool"
    infer = scalars

    def compute(self, xp: Any, resource: Variable) -> Array:
        """Never fails on an uninitialised variable."""
        return xp.asarray(resource.array is not None)


@register
class VariableShape(_HandleOp):
    """The shape of the variable's value."""

    only_reads = True
    inputs = "input: resource"
    outputs = "output: out_type"
    attrs = {"out_type": type_attr(dtypes.INDEX, dtypes.int32)}

    def infer(self, node: Inference) -> list[Shape]:
        """A vector."""
        shape = node.variable_shape(0)
        return [(None if shape is None else len(shape),)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel reads the shape of the array."""
        xp, dtype = context.xp, node.attrs["out_type"].as_numpy_dtype
        return lambda handle: xp.asarray(handle.read().shape, dtype)


@register
class DestroyResourceOp(_HandleOp):
    """Destroys the variable's value."""

    inputs = "resource: resource"
    attrs = {"ignore_lookup_error": bool_attr(True)}

    def compute(self, xp: Any, resource: Variable) -> None:
        """Later reads find it uninitialised."""
        with resource.lock:
            resource.array = None


@register
class AssignVariableOp(_HandleOp):
    """Assigns a value to the variable."""

    inputs = "resource: resource, value: dtype"
    attrs = {"dtype": type_attr(dtypes.ALL), "validate_shape": bool_attr(False)}

    def compute(self, xp: Any, resource: Variable, value: Array, *, validate_shape: bool) -> None:
        """See `variable_ops.Assign`."""
        fixed = validate_shape or shapes.is_fully_defined(resource.shape)
        lookup("Assign").compute(xp, resource, value, validate_shape=fixed)


@register
class ResourceGather(_HandleOp):
    """Rows of a variable, see `GatherV2`."""

    looks_up_rows = True
    reads_parts = True
    only_reads = True
    inputs = "resource: resource, indices: Tindices"
    outputs = "output: dtype"
    attrs = {
        "batch_dims": int_attr(0),
        "validate_indices": bool_attr(True),
        "dtype": type_attr(dtypes.ALL),
        "Tindices": type_attr(dtypes.INDEX),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the indices and that of a row."""
        params, indices, batch = node.variable_shape(0), node.shapes[1], node.attrs["batch_dims"]
        if params is None or indices is None or not 0 <= batch < len(params):
            return [None]
        return [(*params[:batch], *indices[batch:], *params[batch + 1 :])]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, None]:
        """Rows of dy at the indices."""
        handle, indices = op.inputs
        minus_one = np.array([-1], np.int32)
        shape = g.VariableShape(handle)
        static, places = g.shape(op.outputs[0]), g.shape(indices)
        if static is None or places is None or None in static[len(places) :]:
            row = g.Slice(shape, np.array([1], np.int32), minus_one)
        else:
            row = g.const(np.array(static[len(places) :], np.int32), dtypes.int32)
        values_shape = g.ConcatV2(
            [g.Reshape(g.Size(indices), minus_one), row], np.array(0, np.int32)
        )
        rows = g.Reshape(indices, minus_one)
        return g.indexed_slices(g.Reshape(dy, values_shape), rows, shape), None

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel of GatherV2 along the first axis after the batch."""
        xp, batch_dims = context.xp, node.attrs["batch_dims"]
        compute = lookup("GatherV2").compute
        axis = xp.asarray(batch_dims, "int32")

        def run(handle: Variable, indices: Array) -> Array:
            found = compute(xp, handle.read(), indices, axis, batch_dims=batch_dims)
            return found.copy() if xp.may_share_memory(found, handle.read()) else found

        return run

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Fills the array with the rows; on the host and without batch dimensions only."""
        if context.xp is not np or node.attrs["batch_dims"]:
            return None
        return lambda handle, indices, out: gather_into(handle.read(), indices, out)


@register
class ResourceGatherNd(_HandleOp):
    """Slices of a variable, see `GatherNd`."""

    reads_parts = True
    only_reads = True
    inputs = "resource: resource, indices: Tindices"
    outputs = "output: dtype"
    attrs = {"dtype": type_attr(dtypes.ALL), "Tindices": type_attr(dtypes.INDEX)}

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the index vectors and that of a slice."""
        params, indices = node.variable_shape(0), node.shapes[1]
        if params is None or not indices or indices[-1] is None or indices[-1] > len(params):
            return [None]
        return [(*indices[:-1], *params[indices[-1] :])]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, None]:
        """Dy added up at the index vectors."""
        handle, indices = op.inputs
        shape = g.VariableShape(handle, out_type=indices.dtype)
        return g.ScatterNd(indices, dy, shape), None

    def compute(self, xp: Any, resource: Variable, indices: Array) -> Array:
        """The slices at the index vectors."""
        found = lookup("GatherNd").compute(xp, resource.read(), indices)
        return found.copy() if xp.may_share_memory(found, resource.read()) else found


@register
class ResourceCountUpTo(_HandleOp):
    """Increments a scalar variable until it reaches `limit`; returns the value before."""

    inputs = "resource: resource"
    outputs = "output: T"
    attrs = {"limit": int_attr(), "T": type_attr(dtypes.INDEX)}
    kernels: ClassVar = {"CPU": None}
    infer = scalars

    def compute(self, xp: Any, resource: Variable, *, limit: int) -> Array:
        """See `variable_ops.CountUpTo`."""
        return lookup("CountUpTo").compute(xp, resource, limit=limit)


class OnHandle(_HandleOp):
    """The op `reference`, given handles instead of references; it has no outputs."""

    reference: ClassVar[type[Op]]

    @property
    def with_references(self) -> Op:
        """The op `reference`."""
        return lookup(self.reference.type or self.reference.__name__)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel of the other op."""
        run = self.with_references.bind(node, context)

        def update(*inputs: Any) -> None:
            run(*inputs)

        return update


def handle_form(op_type: str) -> str | None:
    """Returns the op that does with a handle what `op_type` does with a reference; None if none."""
    own = f"Resource{op_type}"  # unknown if its module is not imported
    return _FORMS.get(op_type) or (own if contains(own) else None)


_SHARED: Final = ("adds_up_rows", "applies_gradients", "capturable", "sums_rows")
"""What holds of both."""
_FORMS: Final[dict[str, str]] = {
    "Assign": "AssignVariableOp",
    "CountUpTo": "ResourceCountUpTo",
    "IsVariableInitialized": "VarIsInitializedOp",
}


def _on_handle(
    reference: type[Op], name: str, handle: str = "resource", type_name: str = "dtype"
) -> None:
    """Registers `name`: the op `reference` with a handle called `handle`.

    Args:
        reference: The op to follow.
        name: The new op type.
        handle: The name of the first input.
        type_name: The name of the attribute that is `T` there.
    """
    first = reference.inputs.partition(":")[0]
    inputs = reference.inputs.replace(f"{first}: Ref(T)", f"{handle}: resource")
    inputs = inputs.replace("Ref(T)", "resource").replace(": T,", f": {type_name},")
    inputs = inputs.removesuffix(": T") + (f": {type_name}" if inputs.endswith(": T") else "")
    attrs = {
        (type_name if key == "T" else key): value
        for key, value in reference.attrs.items()
        if not (handle == "resource" and key == "use_locking")
    }
    if name.startswith("ResourceScatterNd"):
        attrs["use_locking"] = bool_attr(True)  # as in TensorFlow; False only for references
    members = {
        "type": name,
        "inputs": inputs,
        "attrs": attrs,
        "reference": reference,
        **{trait: getattr(reference, trait) for trait in _SHARED},
        "__doc__": f"`{reference.__name__}` of a variable given by its handle.",
        "__module__": __name__,
    }
    register(type(name, (OnHandle,), members))
    _FORMS[reference.type or reference.__name__] = name


_on_handle(variable_ops.AssignAdd, "AssignAddVariableOp")
_on_handle(variable_ops.AssignSub, "AssignSubVariableOp")
for _name in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max"):
    _on_handle(type(lookup(f"Scatter{_name}")), f"ResourceScatter{_name}")
for _name in ("Update", "Add", "Sub", "Min", "Max"):
    _on_handle(type(lookup(f"ScatterNd{_name}")), f"ResourceScatterNd{_name}", "ref", "T")
_on_handle(strided_assign.StridedSliceAssign, "ResourceStridedSliceAssign", "ref", "T")
for _each in imported_ops():
    if isinstance(_each, apply_gradient.DenseUpdate) and not _each.names_handle_form:
        _on_handle(type(_each), f"Resource{_each.op_type}", "var", "T")
