"""Networks unrolled over a list of inputs: `static_rnn` and its two-way form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise import comparison
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.indexing.reordering import reverse_sequence
from sparkflow.ops.shape import arrays
from sparkflow.rnn.stepping import batch_of, copy_through, initial, zero_outputs
from sparkflow.variables.variable_scope import variable_scope
from sparkflow_runtime.dtypes import int32


@export("nn.static_rnn")
def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A cell applied to a list of inputs, one copy of its nodes per step.

    Args:
        cell: A cell.
        inputs: Per step a tensor [batch, size], or a nested structure of such.
        initial_state: The first state; zeros of `dtype` when None.
        dtype: The dtype of the first state.
        sequence_length: [batch] integers: from there on outputs are zeros and states stay.
        scope: The variable scope; `rnn` when None.

    Returns:
        The outputs per step, and the last state.

    Raises:
        TypeError: `inputs` is not a list.
        ValueError: It is empty, or there is neither a first state nor a dtype.
    """
    if not hasattr(cell, "state_size"):
        raise TypeError(f"cell must be an instance of RNNCell, got {cell!r}")
    if not isinstance(inputs, list | tuple):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "rnn") as opened:
        inputs = [tree.map_structure(convert_to_tensor, each) for each in inputs]
        batch, static_batch = batch_of(tree.flatten(inputs[0])[0], 0)
        state = initial(cell, initial_state, batch if static_batch is None else static_batch, dtype)
        lengths = None
        if sequence_length is not None:
            lengths = convert_to_tensor(sequence_length, name="sequence_length")
            if lengths.shape.ndims not in (None, 1):
                raise ValueError("sequence_length must be a vector of length batch_size")
            lengths = cast(lengths, int32)
        outputs: list[Any] = []
        zero: Any = None
        for time, each in enumerate(inputs):
            if time > 0:
                opened.reuse_variables()
            output, new_state = cell(each, state)
            if lengths is not None:
                zero = zero_outputs(output) if zero is None else zero
                done = comparison.greater_equal(time, lengths)
                output = copy_through(done, zero, output)
                new_state = copy_through(done, state, new_state)
            outputs.append(output)
            state = new_state
        return outputs, state


@export("nn.static_state_saving_rnn")
def static_state_saving_rnn(
    cell: Any,
    inputs: Sequence[Any],
    state_saver: Any,
    state_name: Any,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """`static_rnn` that starts from a saved state and saves the last one.

    Args:
        cell: A cell.
        inputs: As for `static_rnn`.
        state_saver: An object with methods `state(name)` and `save_state(name, value)`.
        state_name: The name of the state; a structure of names where the state is nested.
        sequence_length: As for `static_rnn`.
        scope: As for `static_rnn`.

    Raises:
        ValueError: Names and state do not nest alike.
    """
    names = tree.flatten(state_name)
    if len(names) != len(tree.flatten(cell.state_size)):
        raise ValueError(
            f"#elems(state_name) must equal #elems(cell.state_size): {state_name} vs "
            f"{cell.state_size}"
        )
    first = tree.unflatten_as(cell.state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, first, None, sequence_length, scope)
    saves = [
        state_saver.save_state(name, part)
        for name, part in zip(names, tree.flatten(state), strict=True)
    ]
    last = tree.flatten(outputs[-1])
    with last[0].graph.control_dependencies(saves):
        last[0] = identity(last[0])
    outputs[-1] = tree.unflatten_as(outputs[-1], last)
    return outputs, state


@export("nn.static_bidirectional_rnn")
def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Two cells, one over the inputs forwards, one backwards.

    Args:
        cell_fw: The cell forwards.
        cell_bw: The cell backwards.
        inputs: As for `static_rnn`.
        initial_state_fw: The first state forwards.
        initial_state_bw: The first state backwards.
        dtype: As for `static_rnn`.
        sequence_length: As for `static_rnn`; only so much is turned round.
        scope: The variable scope; `bidirectional_rnn` when None.

    Returns:
        Per step both outputs joined along the last dimension; both last states.
    """
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forwards:
            output_fw, state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, forwards
            )
        with variable_scope("bw") as backwards:
            turned = _turned(list(inputs), sequence_length)
            output, state_bw = static_rnn(
                cell_bw, turned, initial_state_bw, dtype, sequence_length, backwards
            )
    output_bw = _turned(output, sequence_length)
    joined = [
        tree.map_structure(lambda a, b: arrays.concat([a, b], 1), a, b)
        for a, b in zip(output_fw, output_bw, strict=True)
    ]
    return joined, state_fw, state_bw


def _turned(steps: list[Any], lengths: Any) -> list[Any]:
    """The steps from the last to the first; of each sequence only as many as it has."""
    if lengths is None:
        return steps[::-1]
    flat = [tree.flatten(each) for each in steps]
    turned: list[list[Tensor]] = []
    for column in zip(*flat, strict=True):
        shape = TensorShape([None, None])
        for tensor in column:
            shape = shape.merge_with(tensor.shape)
            tensor.set_shape(shape)
        whole = arrays.stack([convert_to_tensor(each) for each in column])
        back = reverse_sequence(whole, lengths, seq_axis=0, batch_axis=1)
        turned.append(arrays.unstack(back, len(steps)))
    return [
        tree.unflatten_as(step, [column[i] for column in turned]) for i, step in enumerate(steps)
    ]
