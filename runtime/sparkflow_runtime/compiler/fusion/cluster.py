"""A cluster of nodes being fused into one kernel: its instructions and inputs.

float16 and bfloat16 are read as float32, and a node's outputs are rounded once, as in its own
kernel: see `ops.kernels.narrow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.ir.kernel import DTYPES, NARROW
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.dtypes import DType, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.fusion import Check, Dims, Fused, Fusion, NotFusableError, squeezed
from sparkflow_runtime.ops.kernels.narrow import is_fusable, widened

MAX_RANK: Final = 4
MAX_NODES: Final = 512
MAX_ARRAYS: Final = 48
"""More pointers than this spill out of registers for no gain."""


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """A check of one of the nodes.

    Attributes:
        node: The node that fails.
        inputs: The tensors that the error concerns.
        check: The check.
    """

    node: Node
    inputs: tuple[Endpoint, ...]
    check: Check


class Cluster:
    """A kernel that grows node by node, in execution order.

    Args:
        space: Sizes of the iteration space.
        known: What is known of every tensor.

    Attributes:
        nodes: The nodes that it computes.
        tensors: Their outputs.
        externals: The tensors that it reads, their mappings, and the builder's values.
        inputs: The builder's inputs in order, including those of rejected nodes.
        position: Its position in the order of the partition.
    """

    def __init__(
        self, space: tuple[int, ...], known: Mapping[Endpoint, Known], position: int
    ) -> None:
        self.space = space
        self.nodes: list[Node] = []
        self.positions: list[int] = []
        self.position = position
        self.tensors: dict[Endpoint, Fused] = {}
        self.externals: dict[tuple[Endpoint, Dims], Value] = {}
        self.inputs: list[Endpoint] = []
        self.checks: list[NodeCheck] = []
        self.builder = KernelBuilder(len(space))
        self._known = known
        self._reduced: tuple[bool, ...] | None = None
        self._narrow: dict[int, Value] = {}
        """By the number of a float32 value, the value from which it was cast."""

    @property
    def dims(self) -> int:
        """The rank of the space."""
        return len(self.space)

    def add(self, node: Node, position: int) -> None:
        """Adds a node.

        Args:
            node: The node.
            position: Its position in the order of the partition.

        Raises:
            NotFusableError: It cannot be added; the cluster is unchanged.
        """
        if len(self.nodes) >= MAX_NODES or len(self.externals) >= MAX_ARRAYS:
            raise NotFusableError("the kernel is large enough")
        op = registry.lookup(node.op)
        inputs = [self._known[endpoint] for endpoint in node.inputs]
        count = len(op.signature.output_dtypes(node.attrs))
        outputs = [self._known[Endpoint(node.name, slot)] for slot in range(count)]
        shapes = [each.full_shape for each in (*inputs, *outputs)]
        if None in shapes:
            raise NotFusableError("a shape is not known")
        stored = [each.dtype.base for each in (*inputs, *outputs)]
        dtypes = [float32 if dtype in NARROW else dtype for dtype in stored]
        loaded: dict[tuple[Endpoint, Dims], Value] = {}

        def load(number: int, dims: Dims) -> Value:
            if stored[number] not in DTYPES | NARROW:
                raise NotFusableError("no kernel reads this dtype")
            key = (node.inputs[number], dims)
            found = self.externals.get(key) or loaded.get(key)
            if found is None:
                axes = tuple(dim in dims for dim in range(self.dims))
                found = loaded[key] = self.builder.input(stored[number], axes)
                self.inputs.append(node.inputs[number])
            return self._widened(found)

        reduced = self._reduced
        fusion = Fusion(
            self.builder,
            self.space,
            widened(node, NARROW).attrs,
            shapes[: len(inputs)],  # type: ignore[arg-type]  # none is None
            dtypes[: len(inputs)],
            [each.value for each in inputs],
            [self._inside(endpoint) for endpoint in node.inputs],
            shapes[len(inputs) :],  # type: ignore[arg-type]  # none is None
            dtypes[len(inputs) :],
            load,
            self._may_read_reduction,
        )
        try:
            made = [
                self._narrowed(fused, known.dtype)
                for fused, known in zip(op.fuse(fusion), outputs, strict=True)
            ]
            for fused, known in zip(made, outputs, strict=True):
                if any(fusion.inside[i] for check in fusion.checks for i in check.inputs):
                    raise NotFusableError("what is checked is computed in the kernel")
                if fused.value.dtype is not known.dtype or fused.shape != known.full_shape:
                    raise NotFusableError("the kernel would compute another dtype or shape")
        except InvalidArgumentError as error:  # kernels have no such function of this dtype
            self._reduced = reduced
            raise NotFusableError(str(error)) from error
        except NotFusableError:
            self._reduced = reduced
            raise
        self.externals |= loaded
        self.nodes.append(node)
        self.positions.append(position)
        self.checks += [
            NodeCheck(node, tuple(node.inputs[number] for number in check.inputs), check)
            for check in fusion.checks
        ]
        for slot, fused in enumerate(made):
            self.tensors[Endpoint(node.name, slot)] = fused

    def _inside(self, endpoint: Endpoint) -> Fused | None:
        """Returns a tensor that this kernel computes, in the dtype in which it is read."""
        found = self.tensors.get(endpoint)
        return found and replace(found, value=self._widened(found.value))

    def _widened(self, value: Value) -> Value:
        if value.dtype not in NARROW:
            return value
        wide = self.builder.cast(value, float32)
        self._narrow[wide.number] = value
        return wide

    def _narrowed(self, fused: Fused, dtype: DType) -> Fused:
        """Returns a result in its stored dtype.

        Raises:
            NotFusableError: It is rounded, but complete only at the end of the kernel.
        """
        if dtype not in NARROW or fused.value.dtype is not float32:
            return fused
        if fused.is_final:
            raise NotFusableError("a sum of the kernel would have to be rounded after it")
        given = self._narrow.get(fused.value.number)
        if given is None or given.dtype is not dtype:
            given = self.builder.cast(fused.value, dtype)
        return replace(fused, value=given)

    def _may_read_reduction(self, axes: Sequence[bool], over: tuple[bool, ...]) -> bool:
        """Whether a reduction may be read: over the last dimensions, all over the same ones."""
        first = over.index(True)
        if first == 0 or not all(over[first:]) or not all(axes[:first]):
            return False
        if self._reduced is None:
            self._reduced = over
        return self._reduced == over


def natural_space(node: Node, known: Mapping[Endpoint, Known]) -> tuple[int, ...] | None:
    """Returns the iteration space of a single node; None if it cannot be in any kernel."""
    op = registry.lookup(node.op)
    if not node.inputs or not is_fusable(op, node):
        return None
    if any(known[each].dtype.is_ref for each in node.inputs) and (
        op.shared(node, node.inputs)
        or any(dtype.is_ref for dtype in op.signature.input_dtypes(node.attrs))
    ):
        return None
    endpoint = Endpoint(node.name, 0) if op.fuse_over is None else node.inputs[op.fuse_over]
    shape = known[endpoint].full_shape
    return None if shape is None else squeezed(shape)
