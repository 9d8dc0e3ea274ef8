"""What an op may say of itself beside shapes, kernel and gradient, by what it concerns.

Passes and compilers know no op by its name: they ask these. Every trait has a default that is right
for any op, and only costs speed, so that an op says what it gains from. `trait_checks` tells
whether what an op says can be true; docs/own_ops.md has a table of what each is good for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import DTYPES
from sparkflow_runtime.dtypes import DType, bfloat16, float32, resource, variant
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.fusion import Fused, Fusion, NotFusableError
from sparkflow_runtime.ops.signature import Signature
from sparkflow_runtime.ops.value import WHOLE, Value, ValueRule
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu
    from sparkflow_runtime.ops.images import Images
    from sparkflow_runtime.ops.kernel import KernelContext
    from sparkflow_runtime.ops.list_access import ListAccess
    from sparkflow_runtime.ops.machine_call import CallSite, MachineCall

CHECKPOINTS: Final = "checkpoints"
FILES: Final = "files"
NETWORK: Final = "network"
PYTHON: Final = "python"
REACHES: Final[Mapping[str, str]] = {
    CHECKPOINTS: "reads or writes checkpoints",
    FILES: "reads or writes files",
    NETWORK: "talks to other tasks",
    PYTHON: "calls Python functions of the process",
}
"""What an op may reach beyond its step, in words."""

Item = TypeVar("Item")


class NodeView(Protocol):
    """What a kernel may know of the node it serves."""

    @property
    def name(self) -> str:
        """The node's unique name in its graph."""

    @property
    def op(self) -> str:
        """The op type."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """All attributes, completed and canonical."""


@dataclass(slots=True)
class Inference:
    """What shape inference may look at: static shapes, dtypes, attributes, known inputs."""

    shapes: Sequence[Shape]
    dtypes: Sequence[DType]
    attrs: Mapping[str, Any]
    known: Callable[[int], Value | None] = field(default=lambda _: None)
    variable: Callable[[int], Shape] = field(default=lambda _: None)

    def value(self, index: int) -> np.ndarray[Any, Any] | None:
        """The value of input `index` where the graph tells every element of it, else None."""
        found = self.known(index)
        return None if found is None else found.whole

    def variable_shape(self, index: int) -> Shape:
        """What the graph tells of the shape of the variable whose handle is input `index`."""
        return self.variable(index)

    def with_rank(self, index: int, rank: int, name: str) -> tuple[int | None, ...]:
        """The shape of an input that must have this rank.

        Raises:
            InvalidArgumentError: The rank is known and another one.
        """
        shape = self.shapes[index]
        if shape is None:
            return (None,) * rank
        if len(shape) != rank:
            raise InvalidArgumentError(
                message=f"Shape must be rank {rank} but is rank {len(shape)}: "
                f"{name} has shape {shapes.text(shape)}"
            )
        return shape


class _Described:
    """What all of them may look at; `Op` makes it."""

    op_type: str
    signature: Signature


class Effects(_Described):
    """What a node does beside computing its outputs, and what it may wait for.

    Attributes:
        stateful: Runs whenever fetched: never folded, merged or moved across steps.
        only_reads: Takes references or handles and changes nothing behind them.
        takes_step: The bound kernel's first argument is the running `StepContext`.
        is_loop: Whether it may run for ever by itself: its kernel takes the step, and, where there
            is one, asks again and again whether the step was cancelled.
        may_block: Whether the kernel may wait for what another step, or another node of its own,
            does: then what does not depend on it goes on meanwhile. A kernel with `takes_step` has
            to wait in `resources.waiting.wait_for`, or within `resources.turns.others_go_on`; of
            others nobody sees when they wait.
        parks: Whether it waits for nothing but a request of `resources.parking`, so that a run can
            be left there.
        checks: Whether it hands on its input as it is, or fails where that is not as it should be.
        copyable: Whether a copy of the node does what the node does, although it is stateful.
        draws: Whether it draws random numbers.
        reaches: What beyond the step its kernel may reach, of `REACHES`: a graph from a file may
            have such an op only where the program names it. None says nothing, and reaches all.
            `registry.register` takes the silence of sparkflow's own ops for "nothing"; tests hold
            them to that.
        paths: Names of the inputs that name the files it reaches.
    """

    stateful: ClassVar[bool] = False
    only_reads: ClassVar[bool] = False
    takes_step: ClassVar[bool] = False
    is_loop: ClassVar[bool] = False
    may_block: ClassVar[bool] = False
    parks: ClassVar[bool] = False
    checks: ClassVar[bool] = False
    copyable: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    reaches: frozenset[str] | None = None
    paths: ClassVar[tuple[str, ...]] = ()

    def reach(self, attrs: Mapping[str, Any]) -> Set[str] | None:
        """What a node with these attributes reaches of what the op `reaches`."""
        return self.reaches


class Memory(Effects):
    """Whose memory the outputs may be, and what holds on to the inputs.

    Attributes:
        keeps_inputs: Whether the kernel of an op with state may hold on to the arrays it is given
            after it returns; those of others do not.
        ends_with_step: Whether what it holds on to ends with the step, and comes out by `aliases`.
        aliases: Names of the inputs whose memory an output may share: views of them, or they
            themselves. None says nothing: such an op may share any input, and hold on to it.
            `registry.register` takes the silence of sparkflow's own ops for "none"; tests hold
            them to that.
        overwrites: The number of the input whose memory the output may be given where nobody reads
            it afterwards: the kernel of `bind_out` takes it for both then. None for no input.
        is_view: Where an output shares memory with an input, shapes and known inputs alone tell so,
            and where it begins: the view is then made once, and not in every step.
    """

    keeps_inputs: ClassVar[bool] = True
    ends_with_step: ClassVar[bool] = False
    aliases: frozenset[str] | None = None
    overwrites: ClassVar[int | None] = None
    is_view: ClassVar[bool] = False

    def shared(self, node: NodeView, inputs: Sequence[Item]) -> Sequence[Item]:
        """Those of a node's inputs whose memory its outputs may share.

        Args:
            node: The node.
            inputs: One item per input, lists flattened.
        """
        if self.aliases is None:
            return inputs
        if not self.aliases:
            return ()
        names = self.signature.input_names(node.attrs)
        return [item for item, name in zip(inputs, names, strict=True) if name in self.aliases]

    def may_keep_inputs(self, node: NodeView) -> bool:
        """Whether something may hold on to the arrays after the node has run.

        So may those that `hands_on`, and ops that say nothing of the memory of their outputs.
        """
        return self.aliases is None or self.hands_on(node)

    def lends(self, node: NodeView) -> Sequence[int]:
        """The numbers of inputs that are read where they are when the node has run.

        These are the memory of variables, or else nobody may use it for anything else.
        """
        return ()

    def hands_on(self, node: NodeView) -> bool:
        """Whether others may find the inputs after the node has run, and may wait for them.

        So it is with state, unless the op says otherwise, and with handles and variants.
        """
        if (self.stateful or self.takes_step) and self.keeps_inputs:
            return True
        return any(
            dtype.base in (variant, resource) for dtype in self.signature.output_dtypes(node.attrs)
        )

    def outlives_step(self, node: NodeView) -> bool:
        """Whether something may hold on to the inputs when the step is over."""
        if self.aliases is None:
            return True
        return (self.stateful or self.takes_step) and self.keeps_inputs and not self.ends_with_step


class Arithmetic(_Described):
    """How outputs follow from inputs, so that a node may be moved, merged, or left out.

    Attributes:
        commutative: Whether the two inputs may change places: not where they are texts.
        passes_on: Whether all that it does is to hand on each input as the output of that number.
        reshapes: Whether the only output has the elements of the first input, in the same order.
        elementwise: Whether an element of the output depends on the elements at its place of the
            inputs alone.
        broadcasts: Whether it is elementwise, and broadcasts its inputs as numpy does.
        reduction: Whether it combines the elements along the axes that the second input names, and
            of one element makes that element.
        repeats: The input of whose elements alone the output consists, as numpy broadcasts them or
            as often as they fit; its size follows from shapes and from other inputs.
        fills: The number of which the output consists, where it is always the same.
        by_segment: The op that does to rows of the same segment, which a second input tells, what
            this reduction does to all; a third input is the number of segments.
        takes_ragged: Whether a row of the output depends on the same row of the inputs alone, so
            that a ragged tensor goes through by its innermost values, as through elementwise ops.
        images: Which arguments are images in the order that the attribute `data_format` says.
        value_rule: What is known of the outputs where the inputs' values are known in part.
        flops: Floating-point operations per element of the first output, see `float_operations`.
    """

    commutative: ClassVar[bool] = False
    passes_on: ClassVar[bool] = False
    reshapes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False
    reduction: ClassVar[bool] = False
    repeats: ClassVar[str | None] = None
    fills: ClassVar[int | None] = None
    by_segment: ClassVar[str | None] = None
    takes_ragged: ClassVar[bool] = False
    images: ClassVar[Images | None] = None
    value_rule: ClassVar[ValueRule] = WHOLE
    flops: ClassVar[int] = 0

    def matrix_product(self, node: NodeView) -> tuple[bool, bool] | None:
        """Whether each factor is transposed first, where the node is a product of matrices.

        They may be stacks of matrices; complex ones may be conjugated as well.
        """
        return None

    def list_access(self, node: NodeView) -> ListAccess | None:
        """What the node does with a list of tensors, where it does nothing else."""
        return None

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """How many floating-point operations a node needs, as TensorFlow's profiler counts them.

        Args:
            node: What is known of the node.
            outputs: The static shapes of its outputs.

        Raises:
            UnknownSizeError: They depend on a size that is not known.
        """
        return self.flops * shapes.size(outputs[0]) if self.flops and outputs else 0


class Structure(_Described):
    """What stands for something else than an operation in a step.

    Attributes:
        is_variable: Whether it gives the reference or handle of the variable that its attributes
            `container` and `shared_name` name, of their `dtype` and `shape`.
        is_placeholder: Whether a step is to feed its output.
        is_collective: Whether several devices do it together, so that it is cut into a start and a
            wait (`passes.collectives`).
        is_frame: Whether it is control flow of TensorFlow's first releases, of which functions are
            made before anything else (`passes.raising`).
    """

    is_variable: ClassVar[bool] = False
    is_placeholder: ClassVar[bool] = False
    is_collective: ClassVar[bool] = False
    is_frame: ClassVar[bool] = False


class Training(_Described):
    """What it does with variables, their rows and their gradients.

    Attributes:
        reads_variable: Whether the output is the value of the variable of which the first input is
            the reference or the handle.
        applies_gradients: Whether it updates the variable of its first input by gradients, which
            the other inputs are or belong to.
        sums_rows: Names of the inputs that are rows and their ids, where rows of equal ids count as
            their sum.
        adds_up_rows: Whether its kernel adds up rows of equal ids before it uses them.
        collects_gradients: Whether it adds a gradient to what the first input's handle stands for,
            which gathers those of several steps.
        gives_collected: Whether its output is made of the gradients gathered there.
        looks_up_rows: Whether the output is the rows of the first input, or of its variable, for
            the ids in the second one.
        reads_parts: Whether the first output is rows or slices of what the first input's handle
            stands for.
        tolerates_rounding: Whether its inputs may be rounded to 16 bits where its output is applied
            to a variable that travels so (`passes.wire_dtypes`).
        exact_inputs: Whether its inputs are not to be rounded, whatever they are read from.
    """

    reads_variable: ClassVar[bool] = False
    applies_gradients: ClassVar[bool] = False
    sums_rows: ClassVar[tuple[str, str] | None] = None
    adds_up_rows: ClassVar[bool] = False
    collects_gradients: ClassVar[bool] = False
    gives_collected: ClassVar[bool] = False
    looks_up_rows: ClassVar[bool] = False
    reads_parts: ClassVar[bool] = False
    tolerates_rounding: ClassVar[bool] = False
    exact_inputs: ClassVar[bool] = False

    def row_gradients(self, node: NodeView) -> Sequence[tuple[int, int]]:
        """Numbers of the inputs that are rows and of those that are their ids, see `sums_rows`."""
        if self.sums_rows is None:
            return ()
        names = [arg.name for arg in self.signature.inputs]
        rows, ids = self.sums_rows
        return [(names.index(rows), names.index(ids))]

    def met_gradients(self, node: NodeView) -> Sequence[int]:
        """Numbers of the inputs that are gradients of several replicas, which meet in this node."""
        return ()


class Execution(_Described):
    """How its kernels run: on which devices, into given arrays, as part of a fused one.

    Attributes:
        widens: The dtypes of `NARROW` instead of which `bind_kernel` gives the kernel float32, on a
            host; where not, the kernel itself must take arrays of these. None where the bits count.
        host_inputs: Names of the inputs that the kernel reads as Python's numbers: where they are
            known they stay on the host, and no step waits for the card to send them.
        capturable: Whether the kernel on a GPU does nothing but launch, and the same in every step,
            so that a CUDA graph may replay it: it takes nothing from the host, and decides nothing
            by values.
        quiet: Whether it computes nothing, so that numpy has nothing to warn of.
        lasting: Whether what it makes of the same inputs may be the same object in every step,
            because nobody changes it: so it is with lists.
        fuse_over: The input whose shape is the iteration space where the op is fused; None for the
            first output.
    """

    widens: ClassVar[Collection[DType]] = frozenset({bfloat16})
    host_inputs: ClassVar[frozenset[str]] = frozenset()
    capturable: ClassVar[bool] = False
    quiet: ClassVar[bool] = False
    lasting: ClassVar[bool] = False
    fuse_over: ClassVar[int | None] = None

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Like `bind`, for a kernel that fills arrays it is given, and allocates nothing big.

        It takes the input arrays, then one C-contiguous array per output, of the output's shape
        and dtype and apart from every input, but for the one it `overwrites`; what it returns is
        not looked at.

        Returns:
            The kernel; None if there is none, as here.
        """
        return None

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """As `bind_out`, for a GPU."""
        return None

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """The node as one call of machine code, for loops in machine code; None where it is none.

        It is asked only where there is machine code for this processor.
        """
        return None

    def is_fusable(self, node: NodeView) -> bool:
        """Whether `fuse` may be asked about this node at all; cheap.

        Unless a subclass says otherwise, where there is a `fuse` and kernels have the dtype `T`.
        """
        return type(self).fuse is not Execution.fuse and node.attrs.get("T", float32) in DTYPES

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The outputs as values of a kernel.

        Raises:
            NotFusableError: It cannot be part of that kernel, as here of none.
        """
        raise NotFusableError("the op has no instructions")
