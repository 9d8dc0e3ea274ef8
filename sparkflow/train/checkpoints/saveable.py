"""The items that a `Saver` saves: the tensors of one name, and how they are restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import device, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.shape import arrays
from sparkflow.ops.state import state
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.dtypes import DType, resource
from sparkflow_runtime.ops import registry


class SaveSpec:
    """One tensor to save.

    Args:
        tensor: The tensor, or a function that makes it.
        slice_spec: Where it lies in a larger one, e.g. `4 5 0,2:-`; "" when it is the whole.
        name: Its name in the checkpoint.
        dtype: Its type; that of `tensor` when None.
        device: Where it is saved; the device of `tensor` when None.
    """

    def __init__(
        self,
        tensor: Any,
        slice_spec: str,
        name: str,
        dtype: DType | None = None,
        device: str | None = None,
    ) -> None:
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(tensor) and (dtype is None or device is None):
            raise AssertionError(
                "When passing a callable `tensor` to a SaveSpec, an explicit dtype and device must "
                "be provided."
            )
        self.dtype: DType = tensor.dtype if dtype is None else dtype
        self.device: str = tensor.device if device is None else device

    @property
    def tensor(self) -> Any:
        """The tensor."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """The tensors saved and restored together. Subclass it for state that is no variable.

    Args:
        op: What the state belongs to.
        specs: Its tensors.
        name: Its name among the saveables.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def device(self) -> str:
        """Where its first tensor is."""
        return self.specs[0].device

    @property
    def optional_restore(self) -> bool:
        """Whether it may be missing from a checkpoint."""
        return False

    def restore(
        self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None
    ) -> Any:
        """The operation that puts the tensors back.

        Args:
            restored_tensors: One per spec.
            restored_shapes: What to reshape them to, None to take them as they are.
        """
        raise NotImplementedError("Calling an abstract method.")


class VariableSaveable(SaveableObject):
    """A variable, or one part of a partitioned one."""

    def __init__(self, variable: Tensor, slice_spec: str, name: str) -> None:
        spec = SaveSpec(variable, slice_spec, name, dtype=variable.dtype.base)
        super().__init__(variable, [spec], name)

    def restore(
        self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None
    ) -> Any:
        """Assigns."""
        (restored,) = restored_tensors
        if restored_shapes is not None:
            restored = arrays.reshape(restored, restored_shapes[0])
        validated = restored_shapes is None and self.op.shape.is_fully_defined()
        return state.assign(self.op, restored, validate_shape=validated)


class HandleSaveable(SaveableObject):
    """A variable behind a resource handle."""

    def __init__(
        self, handle: Tensor, dtype: DType, shape: Any, slice_spec: str, name: str
    ) -> None:
        self._shape = shape

        def read() -> Any:
            with device(handle.device):
                return get_default_graph().apply("ReadVariableOp", (handle,), {"dtype": dtype})

        spec = SaveSpec(read, slice_spec, name, dtype=dtype, device=handle.device)
        super().__init__(handle, [spec], name)

    def restore(
        self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None
    ) -> Any:
        """Assigns."""
        (restored,) = restored_tensors
        if restored_shapes is not None:
            restored = arrays.reshape(restored, restored_shapes[0])
        elif self._shape is not None:
            restored.set_shape(self._shape)
        with device(self.op.device):
            return get_default_graph().apply("AssignVariableOp", (self.op, restored), {})


def names_to_saveables(var_list: Any) -> dict[str, Any]:
    """What to save by name, parts of one partitioned variable as a list.

    Args:
        var_list: Variables, partitioned variables and saveables in a list, or by name.

    Raises:
        TypeError: It is neither, or something in it is no variable.
        ValueError: A name twice.
    """
    if isinstance(var_list, Mapping):
        return dict(var_list)
    if not isinstance(var_list, list | tuple | set):
        raise TypeError(f"Variables to save should be passed in a dict or a list: {var_list}")
    named: dict[str, Any] = {}
    for each in var_list:
        part = getattr(each, "_save_slice_info", None)
        each = getattr(each, "_saved_by", None) or each
        if isinstance(each, SaveableObject):
            named[each.name] = each
        elif _is_partitioned(each):
            if each.name in named:
                raise ValueError(f"At least two variables have the same name: {each.name}")
            named[each.name] = each
        elif part is not None:
            others = named.setdefault(part.full_name, [])
            if not isinstance(others, list):
                raise ValueError(
                    f"Mixing slices and non-slices with the same name: {part.full_name}"
                )
            others.append(each)
        else:
            name = _variable_tensor(each, "Variable to save is not a Variable").op.name
            if name in named:
                raise ValueError(f"At least two variables have the same name: {name}")
            named[name] = each
    return named


def saveables_of(var_list: Any) -> list[SaveableObject]:
    """The saveables of `names_to_saveables`, sorted by name.

    Raises:
        TypeError: A name is no text, or something is no variable.
        ValueError: A variable or name twice, or parts that belong to different wholes.
    """
    named = names_to_saveables(var_list)
    found: list[SaveableObject] = []
    seen: set[Any] = set()
    for name in named:
        if not isinstance(name, str):
            raise TypeError(
                "names_to_saveables must be a dict mapping string names to checkpointable "
                f"operations. Name is not a string: {name}"
            )
    for name in sorted(named):
        for saveable in _saveables(named[name], name):
            if saveable.op in seen:
                raise ValueError(
                    f"The same saveable will be restored with two names: {saveable.name}"
                )
            seen.add(saveable.op)
            found.append(saveable)
    return found


def _saveables(item: Any, name: str) -> list[SaveableObject]:
    if isinstance(item, SaveableObject):
        return [item]
    if not isinstance(item, list | tuple) and not _is_partitioned(item):
        return [_saveable(item, "", name)]
    whole = None
    found: list[SaveableObject] = []
    for variable in item:
        part = getattr(variable, "_save_slice_info", None)
        if not isinstance(variable, Symbolic) or isinstance(variable, Tensor):
            raise ValueError(f"Slices must all be Variables: {variable}")
        if part is None:
            raise ValueError(f"Slices must all be slices: {variable}")
        if whole is None:
            whole = part.full_name
        elif whole != part.full_name:
            raise ValueError(
                f"Slices must all be from the same tensor: {whole} != {part.full_name}"
            )
        found.append(_saveable(variable, part.spec, name))
    return found


def _saveable(variable: Any, slice_spec: str, name: str) -> SaveableObject:
    tensor = _variable_tensor(
        variable,
        "names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a "
        "variable",
    )
    handle = tensor.op.inputs[0] if tensor.op.inputs else tensor
    if handle.dtype is resource:
        attrs = handle.op
        return HandleSaveable(handle, attrs.attr("dtype"), attrs.attr("shape"), slice_spec, name)
    return VariableSaveable(tensor, slice_spec, name)


def _is_variable(op: Operation) -> bool:
    """Whether it gives a variable, or what is read of one behind a handle."""
    kind = registry.find(op.type)
    return kind.is_variable or (kind.reads_variable and op.inputs[0].dtype is resource)


def _is_partitioned(item: Any) -> bool:
    return hasattr(item, "_variable_list") and not isinstance(item, Tensor | Operation)


def _variable_tensor(item: Any, refusal: str) -> Tensor:
    handle = getattr(item, "handle", None)
    if isinstance(handle, Tensor):
        return handle
    if not isinstance(item, Symbolic):
        raise TypeError(f"{refusal}: {item}")
    tensor = item._to_tensor(as_ref=True)
    if not _is_variable(tensor.op):
        raise TypeError(f"{refusal}: {item}")
    return tensor


def cpu_of(device_name: str) -> str:
    """The first CPU of the task that a device name names."""
    spec = DeviceSpec.from_string(device_name)
    return DeviceSpec(spec.job, spec.replica, spec.task, "CPU", 0).to_string()
