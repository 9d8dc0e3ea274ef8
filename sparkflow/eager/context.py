"""`EagerGraph`: the default "graph" of eager execution, in which nodes run instead of being added.

Everything that builds graphs goes through `Graph.add_node`; here that computes. So all functions,
layers and optimizers work in eager execution as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sparkflow.eager.tensor import EagerTensor
from sparkflow.graph import default_stack
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import OVERRIDE_ATTR, Graph
from sparkflow.graph.nodes.attributes import completed_attrs
from sparkflow.graph.nodes.source import user_line
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.compiler.run.immediate import Immediate
from sparkflow_runtime.device.device import task_devices
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function import called
from sparkflow_runtime.ir.function_def import import_function
from sparkflow_runtime.ir.graph import Graph as RuntimeGraph
from sparkflow_runtime.ir.node import SOURCE_ATTR, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.functions import ready_functions

if TYPE_CHECKING:
    from sparkflow.eager.tape import GradientTape


class EagerGraph(Graph):
    """Runs nodes when they are made.

    Attributes:
        device_name: The full name of the device nodes run on.
        tapes: The gradient tapes that are open in this thread, innermost last.
        owners: The `Variable` of a reference, by the id of its tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        device = task_devices("localhost", 0, 0)[0]
        self.device_name = device.name
        self.tapes: default_stack.DefaultStack[GradientTape] = default_stack.DefaultStack("tape")
        self.owners: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._immediate = Immediate(device)
        self._numbers = itertools.count()
        self._made = 0
        self._forgotten = Operation(self, "", "NoOp", (), {})

    @property
    def is_eager(self) -> bool:
        """True: nodes run at once."""
        return True

    @property
    def version(self) -> int:
        """How many nodes have run."""
        return self._made

    def _create_here(
        self,
        op_type: str,
        inputs: Sequence[Tensor | Sequence[Tensor]] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operation:
        """Runs one node; see `Graph.add_node`."""
        op = registry.lookup(op_type)
        if op.is_placeholder and not op.signature.inputs:
            raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
        flat: list[Tensor] = []
        given: list[Any] = []
        for value in inputs:
            if isinstance(value, Tensor):
                flat.append(value)
                given.append(value.dtype)
            else:
                flat.extend(value)
                given.append([tensor.dtype for tensor in value])
        try:
            complete, output_dtypes = completed_attrs(op, given, attrs)
        except InvalidArgumentError as error:
            raise TypeError(f"{error.message} ({op_type} at {user_line()})") from None
        if op_type in self._gradient_overrides:
            complete[OVERRIDE_ATTR] = self._gradient_overrides[op_type]
        complete.setdefault(SOURCE_ATTR, user_line())
        self._made += 1
        label = (name or op_type).rstrip("/")
        if op_type == "Const":
            values: Sequence[Any] = (complete["value"],)
        else:
            values = self._immediate.run(
                op_type,
                label,
                complete,
                [_value(each, op_type) for each in flat],
                self._functions_of(op_type, label, complete),
            )
        operation = Operation(
            self, str(next(self._numbers)), op_type, self._without_history(flat), complete
        )
        operation.outputs = [
            EagerTensor(operation, index, dtype, value)
            for index, (dtype, value) in enumerate(zip(output_dtypes, values, strict=False))
        ]
        if op.is_variable and op.signature.gives_references:
            operation.outputs[0]._shape = complete["shape"]
        tape = self.tapes.top()
        if tape is not None:
            tape._record(operation, flat)
        return operation

    def _functions_of(self, op_type: str, name: str, attrs: Mapping[str, Any]) -> Any:
        """The functions a node may call, ready to be compiled."""
        node = Node(name, op_type, attrs=attrs)
        if not any(called(node)):
            return {}
        return ready_functions(
            RuntimeGraph([node]), lambda each: import_function(self.find_function(each).to_proto())
        )

    def _without_history(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The inputs as an operation keeps them: knowing nothing of what they came from.

        Otherwise every tensor would keep alive all that was ever computed on the way to it.
        """
        return tuple(
            [EagerTensor(self._forgotten, 0, each.dtype, _value(each, "")) for each in inputs]
        )

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """There is nothing to suspend."""
        yield

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Keeps the global step only: collections would keep alive what was ever made."""
        if name == GraphKeys.GLOBAL_STEP:
            super().add_to_collection(name, value)


def _value(tensor: Tensor, op_type: str) -> Any:
    if isinstance(tensor, EagerTensor):
        return tensor.held
    raise RuntimeError(
        f"Attempting to capture the graph's {tensor!r} in eager execution ({op_type}): tensors of "
        "a graph have values only in a session"
    )
