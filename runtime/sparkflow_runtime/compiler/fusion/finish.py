"""Builds the kernel of a complete cluster, which computes the tensors that other nodes read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkflow_runtime.codegen.ir.kernel import Instruction, Kernel
from sparkflow_runtime.compiler.fusion.cluster import Cluster, NodeCheck
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.fusion import Fused


@dataclass(frozen=True, slots=True)
class Output:
    """An array that a kernel writes.

    Attributes:
        endpoints: The tensors that it holds, which may differ in dimensions of size 1.
        shape: The shape of the first of them.
        divisor: The divisor of the array after the kernel has run; None for none.
    """

    endpoints: tuple[Endpoint, ...]
    shape: tuple[int, ...]
    divisor: float | None


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A kernel and its place in the partition.

    Attributes:
        kernel: The computation.
        sizes: The sizes of its iteration space.
        nodes: The nodes that it computes.
        position: Its position in the order of the partition.
        inputs: The tensors that it reads, in order.
        outputs: The arrays that it writes, in order, before one scalar per check.
        copies: Tensors that are aliases of others from outside.
        checks: The checks, which raise an error if their scalar is not zero.
    """

    kernel: Kernel
    sizes: tuple[int, ...]
    nodes: tuple[Node, ...]
    position: int
    inputs: tuple[Endpoint, ...]
    outputs: tuple[Output, ...]
    copies: Mapping[Endpoint, Endpoint]
    checks: tuple[NodeCheck, ...]

    @property
    def whole_inputs(self) -> Sequence[int]:
        """The places of inputs whose memory one of `whole_outputs` may take, if sizes are equal.

        This holds only if nothing else reads it, such as another input that is a view.
        """
        if not self.kernel.in_place:
            return ()
        return [place for place, each in enumerate(self.kernel.inputs) if all(each.axes)]

    @property
    def whole_outputs(self) -> Sequence[int]:
        """The places of outputs that vary along all dimensions."""
        values = self.kernel.outputs[: len(self.outputs)]
        return [place for place, each in enumerate(values) if all(self.kernel.value_axes[each])]


def nodes_to_repeat(cluster: Cluster, wanted: Collection[Endpoint]) -> list[Node]:
    """Returns the nodes that must also run singly, for readers outside of the kernel.

    Their outputs would only repeat values that the kernel computes once. The inputs of these nodes
    must be wanted, too.
    """
    names = {
        endpoint.node
        for endpoint, fused in cluster.tensors.items()
        if endpoint in wanted and _repeats(fused)
    }
    return [node for node in cluster.nodes if node.name in names]


def finish(cluster: Cluster, wanted: Collection[Endpoint]) -> FusedKernel:
    """Returns the kernel of a cluster, to which no more nodes are added.

    Args:
        cluster: The complete cluster.
        wanted: The tensors that are read outside.
    """
    sources = {value.number: endpoint for (endpoint, _), value in cluster.externals.items()}
    by_value: dict[tuple[int, float | None], list[Endpoint]] = {}
    copies: dict[Endpoint, Endpoint] = {}
    for endpoint, fused in cluster.tensors.items():
        if endpoint not in wanted:
            continue
        number = fused.value.number
        if number in sources:
            copies[endpoint] = sources[number]
        else:
            by_value.setdefault((number, fused.divisor), []).append(endpoint)
    outputs = tuple(
        Output(tuple(endpoints), cluster.tensors[endpoints[0]].shape, divisor)
        for (_, divisor), endpoints in by_value.items()
    )
    for endpoints in by_value.values():
        cluster.builder.output(cluster.tensors[endpoints[0]].value)
    for check in cluster.checks:
        cluster.builder.output(check.check.value)
    kernel, kept = _without_unused(cluster.builder.build())
    return FusedKernel(
        kernel,
        cluster.space,
        tuple(cluster.nodes),
        cluster.position,
        tuple(cluster.inputs[number] for number in kept),
        outputs,
        copies,
        tuple(cluster.checks),
    )


def _repeats(fused: Fused) -> bool:
    """Whether the tensor has more elements than the value has positions."""
    return any(
        size > 1 and (dim is None or not fused.value.axes[dim])
        for size, dim in zip(fused.shape, fused.dims, strict=True)
    )


def _without_unused(kernel: Kernel) -> tuple[Kernel, Sequence[int]]:
    """Returns the kernel without unneeded instructions, and the numbers of the remaining inputs."""
    count = len(kernel.inputs)
    needed = set(kernel.outputs)
    for number in range(len(kernel.instructions) - 1, -1, -1):
        if count + number in needed:
            needed.update(kernel.instructions[number].arguments)
    kept = [number for number in range(count) if number in needed]
    renamed = {number: place for place, number in enumerate(kept)}
    instructions: list[Instruction] = []
    for number, instruction in enumerate(kernel.instructions):
        if count + number not in needed:
            continue
        renamed[count + number] = len(kept) + len(instructions)
        arguments = tuple(renamed[each] for each in instruction.arguments)
        instructions.append(replace(instruction, arguments=arguments))
    inputs = tuple(kernel.inputs[number] for number in kept)
    outputs = tuple(renamed[each] for each in kernel.outputs)
    return Kernel(kernel.rank, inputs, tuple(instructions), outputs), kept
