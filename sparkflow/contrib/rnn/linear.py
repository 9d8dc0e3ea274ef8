"""Products with variables `kernel` and `bias` of the open variable scope."""

from __future__ import annotations

from typing import Any

import sparkflow as tf


def linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> Any:
    """The inputs, joined along their last dimension, times `kernel`, plus `bias`.

    Args:
        args: A tensor [batch, size], or a list of them.
        output_size: The size of the result.
        bias: Whether to add a bias.
        bias_initializer: Zeros when None.
        kernel_initializer: As for `tf.get_variable`.

    Raises:
        ValueError: There is no input, or one is not a matrix of known size.
    """
    inputs = list(args) if isinstance(args, list | tuple) else [args]
    if not inputs or any(each is None for each in inputs):
        raise ValueError("`args` must be specified")
    inputs = [tf.convert_to_tensor(each) for each in inputs]
    for each in inputs:
        if each.shape.ndims != 2 or each.shape.dims[1].value is None:
            raise ValueError(f"linear expects matrices of known size, got shape {each.shape}")
    total = sum(each.shape.dims[1].value for each in inputs)
    dtype = inputs[0].dtype
    kernel = tf.get_variable(
        "kernel", [total, output_size], dtype=dtype, initializer=kernel_initializer
    )
    joined = inputs[0] if len(inputs) == 1 else tf.concat(inputs, 1)
    product = tf.matmul(joined, kernel)
    if not bias:
        return product
    initializer = tf.zeros_initializer() if bias_initializer is None else bias_initializer
    return tf.nn.bias_add(
        product, tf.get_variable("bias", [output_size], dtype=dtype, initializer=initializer)
    )
