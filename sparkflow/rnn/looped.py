"""Networks run by a loop: `dynamic_rnn`, its two-way form, and `raw_rnn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.control.tensor_array import TensorArray
from sparkflow.ops.control.while_loop import while_loop
from sparkflow.ops.elementwise import comparison
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.indexing.reordering import reverse_sequence
from sparkflow.ops.reduction.reduction import reduce_all
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.constants import zeros
from sparkflow.rnn.cell import with_batch
from sparkflow.rnn.stepping import batch_of, copy_through, initial
from sparkflow.variables.variable_scope import variable_scope
from sparkflow_runtime.dtypes import int32


@export("nn.dynamic_rnn")
def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """A cell applied to every step of `inputs`, in a loop: sequences may have any length.

    Args:
        cell: A cell.
        inputs: [batch, time, ...], or a nested structure of such.
        sequence_length: [batch] integers: from there on outputs are zeros and states stay.
        initial_state: The first state; zeros of `dtype` when None.
        dtype: The dtype of the first state.
        parallel_iterations: Steps run one after another here.
        swap_memory: Accepted for TensorFlow's sake.
        time_major: Inputs and outputs are [time, batch, ...].
        scope: The variable scope; `rnn` when None.

    Returns:
        The outputs [batch, time, ...] in the structure of the cell's, and the last state.

    Raises:
        TypeError: `cell` is not a cell.
        ValueError: There is neither a first state nor a dtype, or shapes do not fit.
    """
    if not hasattr(cell, "state_size"):
        raise TypeError(f"cell must be an instance of RNNCell, got {cell!r}")
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(each) for each in tree.flatten(inputs)]
        if not time_major:
            flat = [_swapped(each) for each in flat]
        lengths = _lengths(sequence_length)
        batch, static_batch = batch_of(flat[0], 1)
        for each in flat:
            if each.shape.ndims is not None and each.shape.ndims < 2:
                raise ValueError(f"inputs must be [batch, time, ...], got {each!r}")
        if lengths is not None and static_batch is not None and lengths.shape.ndims == 1:
            lengths.shape.assert_is_compatible_with(TensorShape([static_batch]))
        state = initial(cell, initial_state, batch if static_batch is None else static_batch, dtype)
        state = tree.map_structure(_as_state, state)
        outputs, final = _loop(
            cell, tree.unflatten_as(inputs, flat), flat, state, lengths, parallel_iterations or 32
        )
        if not time_major:
            outputs = tree.map_structure(_swapped, outputs)
        return outputs, final


def _lengths(given: Any) -> Tensor | None:
    if given is None:
        return None
    lengths = cast(convert_to_tensor(given), int32)
    if lengths.shape.ndims not in (None, 1):
        raise ValueError(
            f"sequence_length must be a vector of length batch_size, but saw shape: {lengths.shape}"
        )
    return identity(lengths, name="sequence_length")  # type: ignore[no-any-return]  # a tensor


def _swapped(tensor: Tensor) -> Tensor:
    """[batch, time, ...] as [time, batch, ...], or back."""
    if tensor.shape.ndims is None:
        rank = arrays.rank(tensor)
        rest = get_default_graph().apply("Range", (2, rank, 1), {})
        swapped = arrays.transpose(tensor, arrays.concat([[1, 0], rest], 0))
        return swapped
    return arrays.transpose(tensor, [1, 0, *range(2, tensor.shape.ndims)])


def _loop(
    cell: Any,
    inputs: Any,
    flat: list[Tensor],
    state: Any,
    lengths: Tensor | None,
    parallel_iterations: int,
) -> tuple[Any, Any]:
    """Runs the cell over time-major inputs."""
    steps, static_steps = batch_of(flat[0], 0)
    _, static_batch = batch_of(flat[0], 1)
    batch = arrays.shape(flat[0])[1]
    sizes = cell.output_size
    kinds = [each.dtype.base for each in tree.flatten(state)]
    reading = [
        TensorArray(each.dtype.base, size=steps, element_shape=each.shape[1:]).unstack(each)
        for each in flat
    ]
    writing = [
        TensorArray(
            kinds[0] if len(set(kinds)) == 1 else flat[0].dtype.base,
            size=steps,
            element_shape=TensorShape([static_batch]).concatenate(_rest(size)),
        )
        for size in tree.flatten(sizes)
    ]
    zero = None
    if lengths is not None:
        known = batch if static_batch is None else static_batch
        zero = [
            zeros(with_batch(known, size)[0], array.dtype)
            for size, array in zip(tree.flatten(sizes), writing, strict=True)
        ]

    def step(time: Tensor, written: list[TensorArray], old: Any) -> Any:
        values = [array.read(time) for array in reading]
        for value, each in zip(values, flat, strict=True):
            value.set_shape(each.shape[1:])
        output, new = cell(tree.unflatten_as(inputs, values), old)
        tree.assert_same_structure(old, new, check_types=False)
        if lengths is not None:
            done = comparison.greater_equal(time, lengths)
            output = copy_through(done, tree.unflatten_as(output, zero), output)
            new = copy_through(done, old, new)
        pairs = zip(written, tree.flatten(output), strict=True)
        new = tree.unflatten_as(old, tree.flatten(new))
        return time + 1, [array.write(time, each) for array, each in pairs], new

    _, written, final = while_loop(
        lambda time, *_: time < steps,
        step,
        (convert_to_tensor(0, int32, "time"), writing, state),
        shape_invariants=(
            TensorShape([]),
            [TensorShape([])] * len(writing),
            tree.map_structure(_state_shape, state),
        ),
        parallel_iterations=parallel_iterations,
        maximum_iterations=steps,
    )
    outputs = [array.stack() for array in written]
    for output, size in zip(outputs, tree.flatten(sizes), strict=True):
        output.set_shape(TensorShape([static_steps, static_batch]).concatenate(_rest(size)))
    return tree.unflatten_as(sizes, outputs), final


def _as_state(each: Any) -> Any:
    """A part of a state as loops carry it: a tensor, or a `TensorArray` that the cell writes."""
    return each if isinstance(each, TensorArray) else convert_to_tensor(each)


def _state_shape(each: Any) -> TensorShape:
    return TensorShape([]) if isinstance(each, TensorArray) else each.shape


def _rest(size: Any) -> TensorShape:
    return size if isinstance(size, TensorShape) else TensorShape([size])


@export("nn.bidirectional_dynamic_rnn")
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Two cells, one over the inputs forwards, one backwards.

    Args:
        cell_fw: The cell forwards.
        cell_bw: The cell backwards.
        inputs: As for `dynamic_rnn`.
        sequence_length: As for `dynamic_rnn`; only so much is turned round.
        initial_state_fw: The first state forwards.
        initial_state_bw: The first state backwards.
        dtype: As for `dynamic_rnn`.
        parallel_iterations: As for `dynamic_rnn`.
        swap_memory: As for `dynamic_rnn`.
        time_major: As for `dynamic_rnn`.
        scope: The variable scope; `bidirectional_rnn` when None.

    Returns:
        Both outputs, and both last states.
    """
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def turned(tensor: Any) -> Any:
        if sequence_length is None:
            return arrays.reverse(tensor, [time_axis])
        return reverse_sequence(tensor, sequence_length, seq_axis=time_axis, batch_axis=batch_axis)

    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forwards:
            output_fw, state_fw = dynamic_rnn(
                cell_fw,
                inputs,
                sequence_length,
                initial_state_fw,
                dtype,
                parallel_iterations,
                swap_memory,
                time_major,
                forwards,
            )
        with variable_scope("bw") as backwards:
            output, state_bw = dynamic_rnn(
                cell_bw,
                tree.map_structure(turned, inputs),
                sequence_length,
                initial_state_bw,
                dtype,
                parallel_iterations,
                swap_memory,
                time_major,
                backwards,
            )
    return (output_fw, tree.map_structure(turned, output)), (state_fw, state_bw)


@export("nn.raw_rnn")
def raw_rnn(
    cell: Any,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """A cell in a loop that a function controls.

    Args:
        cell: A cell.
        loop_fn: From `(time, cell_output, cell_state, loop_state)` to `(finished, next_input,
            next_cell_state, emit_output, next_loop_state)`. It is called once before the loop with
            `cell_output` and the states None, to learn the first input and state and (by
            `emit_output`) what outputs look like without the batch; `finished` is [batch] booleans.
        parallel_iterations: Steps run one after another here.
        swap_memory: Accepted for TensorFlow's sake.
        scope: The variable scope; `rnn` when None.

    Returns:
        `TensorArray`s of what was emitted, the last state of the cell, and the last loop state.

    Raises:
        TypeError: `cell` is not a cell, or `loop_fn` is not callable.
    """
    if not hasattr(cell, "state_size"):
        raise TypeError(f"cell must be an instance of RNNCell, got {cell!r}")
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with variable_scope(scope or "rnn"):
        time = convert_to_tensor(0, int32, "time")
        finished, first_input, state, emitted, loop_state = loop_fn(time, None, None, None)
        first_input = tree.map_structure(convert_to_tensor, first_input)
        state = tree.map_structure(_as_state, state)
        shape = tree.flatten(first_input)[0].shape
        static_batch = None if shape.ndims is None else shape.as_list()[0]
        batch = arrays.shape(tree.flatten(first_input)[0])[0]
        example = emitted if emitted is not None else cell.output_size
        arrays_out, zero = _emitted(example, emitted is not None, state, batch, static_batch)
        has_loop_state = loop_state is not None
        loop_state = convert_to_tensor(0) if not has_loop_state else loop_state

        def body(time: Tensor, done: Tensor, written: Any, given: Any, old: Any, kept: Any) -> Any:
            output, new_cell_state = cell(given, old)
            following = loop_fn(time + 1, output, new_cell_state, kept if has_loop_state else None)
            now_done, next_input, new, emit, next_kept = following
            emit = emit if emit is not None else tree.unflatten_as(example, zero)
            new = copy_through(done, old, tree.unflatten_as(old, tree.flatten(new)))
            emit = copy_through(done, tree.unflatten_as(emit, zero), emit)
            pairs = zip(written, tree.flatten(emit), strict=True)
            return (
                time + 1,
                comparison.logical_or(done, now_done),
                [array.write(time, each) for array, each in pairs],
                tree.unflatten_as(given, tree.flatten(next_input)),
                new,
                next_kept if has_loop_state else kept,
            )

        _, _, written, _, final, last_kept = while_loop(
            lambda time, done, *_: comparison.logical_not(reduce_all(done)),
            body,
            (time, convert_to_tensor(finished), arrays_out, first_input, state, loop_state),
            parallel_iterations=parallel_iterations or 32,
        )
        return (
            tree.unflatten_as(example, written),
            final,
            last_kept if has_loop_state else None,
        )


def _emitted(
    example: Any, given: bool, state: Any, batch: Tensor, static_batch: int | None
) -> tuple[list[TensorArray], list[Tensor]]:
    """Arrays for what is emitted, and what is emitted for sequences that have ended."""
    made, zero = [], []
    for each in tree.flatten(example):
        if given:
            dtype, size = each.dtype.base, each.shape
        else:
            dtype, size = tree.flatten(state)[0].dtype.base, _rest(each)
        made.append(
            TensorArray(
                dtype,
                size=0,
                dynamic_size=True,
                element_shape=TensorShape([static_batch]).concatenate(size),
            )
        )
        known: Any = batch if static_batch is None else static_batch
        zero.append(zeros(with_batch(known, size)[0], dtype))
    return made, zero
