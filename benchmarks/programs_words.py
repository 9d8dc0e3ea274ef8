# ruff: noqa: D102 - the words are those of the libraries
"""The operations that `programs_cases.py` uses, implemented with each library.

A program is written once. In addition to Python's operators it uses the methods below, which all
classes have. Loops are `while_loop` with tensor arrays, `lax.scan`, and Python's `for`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

EPSILON = 1e-5
Turn = Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Any]]
"""Maps a state and the rows of an iteration to the next state and the iteration's output."""


class TensorFlowWords:
    """The operations of TensorFlow 1 and sparkflow."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.sigmoid, self.tanh, self.square, self.exp = tf.sigmoid, tf.tanh, tf.square, tf.exp
        self.relu, self.elu, self.softmax = tf.nn.relu, tf.nn.elu, tf.nn.softmax
        self.softplus, self.rsqrt, self.gather = tf.nn.softplus, tf.rsqrt, tf.gather
        self.concat, self.reshape, self.transpose = tf.concat, tf.reshape, tf.transpose
        self.split, self.argmax, self.argmin, self.cond = tf.split, tf.argmax, tf.argmin, tf.cond
        self.sums, self.segment_sum = tf.reduce_sum, tf.unsorted_segment_sum
        self.sin, self.cos, self.log, self.minimum = tf.sin, tf.cos, tf.log, tf.minimum
        self.where, self.inverse, self.cumsum = tf.where, tf.matrix_inverse, tf.cumsum
        self.top_k, self.expand, self.logsumexp = tf.nn.top_k, tf.expand_dims, tf.reduce_logsumexp
        self.log_softmax, self.cholesky = tf.nn.log_softmax, tf.cholesky
        self.diagonal, self.abs, self.sqrt = tf.matrix_diag_part, tf.abs, tf.sqrt

    def matmul(self, a: Any, b: Any, transpose_b: bool = False) -> Any:
        return self.tf.matmul(a, b, transpose_b=transpose_b)

    def sum(self, x: Any, axis: int | None = None, keep: bool = False) -> Any:
        return self.tf.reduce_sum(x, axis, keepdims=keep)

    def mean(self, x: Any, axis: int | None = None) -> Any:
        return self.tf.reduce_mean(x, axis)

    def max(self, x: Any, axis: int) -> Any:
        return self.tf.reduce_max(x, axis)

    def rows(self, table: Any, ids: Any) -> Any:
        return self.tf.nn.embedding_lookup(table, ids)

    def ones(self, *shape: int) -> Any:
        return self.tf.ones(shape)

    def zeros(self, *shape: int) -> Any:
        return self.tf.zeros(shape)

    def entropy(self, logits: Any, labels: Any) -> Any:
        tf = self.tf
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(each)

    def binary_entropy(self, logits: Any, labels: Any) -> Any:
        tf = self.tf
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(each)

    def layer_norm(self, x: Any, scale: Any, offset: Any) -> Any:
        mean, variance = self.tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * self.tf.rsqrt(variance + EPSILON) * scale + offset

    def batch_norm(self, x: Any, scale: Any, offset: Any) -> Any:
        mean, variance = self.tf.nn.moments(x, [0])
        return self.tf.nn.batch_normalization(x, mean, variance, offset, scale, EPSILON)

    def triangular_solve(self, matrix: Any, right: Any) -> Any:
        return self.tf.matrix_triangular_solve(matrix, right)

    def convolution(self, x: Any, filters: Any, stride: int = 1) -> Any:
        return self.tf.nn.conv2d(x, filters, [1, stride, stride, 1], "SAME")

    def depthwise(self, x: Any, filters: Any, stride: int = 1) -> Any:
        return self.tf.nn.depthwise_conv2d(x, filters, [1, stride, stride, 1], "SAME")

    def doubled(self, x: Any, filters: Any) -> Any:
        rows, height, width = (int(each) for each in x.shape[:3])
        shape = (rows, 2 * height, 2 * width, int(filters.shape[2]))
        return self.tf.nn.conv2d_transpose(x, filters, shape, [1, 2, 2, 1])

    def halved(self, x: Any) -> Any:
        return self.tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")

    def attention(self, q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        scores = self.matmul(q, k, True) * int(q.shape[-1]) ** -0.5
        if is_causal:
            scores += causal_mask(int(q.shape[-2]))
        return self.matmul(self.softmax(scores), v)

    def loop(self, turns: int, turn: Callable[[Any, Any], Any], start: Any) -> Any:
        def step(i: Any, h: Any) -> Any:
            return i + 1, turn(i, h)

        return self.tf.while_loop(lambda i, _: i < turns, step, (0, start))[1]

    def float(self, x: Any) -> Any:
        return self.tf.cast(x, self.tf.float32)

    def loops(self, turns: int, turn: Callable[[Any, Any], Any], start: Sequence[Any]) -> Any:
        def step(i: Any, *state: Any) -> Any:
            return i + 1, *turn(i, state)

        return self.tf.while_loop(lambda i, *_: i < turns, step, (0, *start))[1:]

    def until(
        self, holds: Callable[[Any], Any], turn: Callable[[Any], Any], start: Sequence[Any]
    ) -> Any:
        return self.tf.while_loop(lambda *s: holds(s), lambda *s: tuple(turn(s)), tuple(start))

    def fold(
        self,
        turn: Callable[[Any, Any], Any],
        state: Sequence[Any],
        rows: Sequence[Any],
        turns: int,
    ) -> Any:
        tf = self.tf
        arrays = [tf.TensorArray(each.dtype, turns).unstack(each) for each in rows]

        def step(i: Any, *state: Any) -> Any:
            return i + 1, *turn(state, [each.read(i) for each in arrays])

        return tf.while_loop(lambda i, *_: i < turns, step, (0, *state))[1:]

    def scan(self, turn: Turn, state: Sequence[Any], rows: Sequence[Any], turns: int) -> Any:
        tf = self.tf
        arrays = [tf.TensorArray(each.dtype, turns).unstack(each) for each in rows]

        def step(i: Any, kept: Any, *state: Any) -> Any:
            state, made = turn(state, [each.read(i) for each in arrays])
            return i + 1, kept.write(i, made), *state

        start = (0, tf.TensorArray(tf.float32, turns), *state)
        return tf.while_loop(lambda i, *_: i < turns, step, start)[1].stack()


class JaxWords:
    """The operations of JAX."""

    def __init__(self, jax: Any) -> None:
        jnp = jax.numpy
        self.jax, self.jnp, self.lax = jax, jnp, jax.lax
        self.sigmoid, self.relu, self.elu = jax.nn.sigmoid, jax.nn.relu, jax.nn.elu
        self.tanh, self.square, self.exp, self.rsqrt = jnp.tanh, jnp.square, jnp.exp, jax.lax.rsqrt
        self.softmax, self.softplus, self.concat = jax.nn.softmax, jax.nn.softplus, jnp.concatenate
        self.reshape, self.transpose, self.split = jnp.reshape, jnp.transpose, jnp.split
        self.argmax, self.argmin, self.cond = jnp.argmax, jnp.argmin, jax.lax.cond
        self.segment_sum = jax.ops.segment_sum
        self.sin, self.cos, self.log, self.minimum = jnp.sin, jnp.cos, jnp.log, jnp.minimum
        self.where, self.inverse, self.cumsum = jnp.where, jnp.linalg.inv, jnp.cumsum
        self.top_k, self.expand = jax.lax.top_k, jnp.expand_dims
        self.logsumexp, self.log_softmax = jax.nn.logsumexp, jax.nn.log_softmax
        self.cholesky, self.abs, self.sqrt = jnp.linalg.cholesky, jnp.abs, jnp.sqrt

    def matmul(self, a: Any, b: Any, transpose_b: bool = False) -> Any:
        return self.jnp.matmul(a, self.jnp.swapaxes(b, -1, -2) if transpose_b else b)

    def sum(self, x: Any, axis: int | None = None, keep: bool = False) -> Any:
        return self.jnp.sum(x, axis, keepdims=keep)

    def mean(self, x: Any, axis: int | None = None) -> Any:
        return self.jnp.mean(x, axis)

    def max(self, x: Any, axis: int) -> Any:
        return self.jnp.max(x, axis)

    def rows(self, table: Any, ids: Any) -> Any:
        return table[ids]

    gather = rows

    def ones(self, *shape: int) -> Any:
        return self.jnp.ones(shape)

    def zeros(self, *shape: int) -> Any:
        return self.jnp.zeros(shape)

    def entropy(self, logits: Any, labels: Any) -> Any:
        chances = self.jax.nn.log_softmax(logits)
        return -self.jnp.mean(self.jnp.take_along_axis(chances, labels[..., None], -1))

    def binary_entropy(self, logits: Any, labels: Any) -> Any:
        return self.jnp.mean(self.softplus(logits) - logits * labels)

    def layer_norm(self, x: Any, scale: Any, offset: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * self.rsqrt(variance + EPSILON) * scale + offset

    def batch_norm(self, x: Any, scale: Any, offset: Any) -> Any:
        return (x - x.mean(0)) * self.rsqrt(x.var(0) + EPSILON) * scale + offset

    def diagonal(self, x: Any) -> Any:
        return self.jnp.diagonal(x, axis1=-2, axis2=-1)

    def triangular_solve(self, matrix: Any, right: Any) -> Any:
        return self.lax.linalg.triangular_solve(matrix, right, left_side=True, lower=True)

    def convolution(self, x: Any, filters: Any, stride: int = 1, groups: int = 1) -> Any:
        return self.lax.conv_general_dilated(
            x,
            filters,
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    def depthwise(self, x: Any, filters: Any, stride: int = 1) -> Any:
        filters = self.transpose(filters, (0, 1, 3, 2))
        return self.convolution(x, filters, stride, x.shape[-1])

    def doubled(self, x: Any, filters: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        return self.lax.conv_transpose(
            x, filters, (2, 2), "VALID", dimension_numbers=order, transpose_kernel=True
        )

    def halved(self, x: Any) -> Any:
        window = (1, 2, 2, 1)
        return self.lax.reduce_window(x, -np.inf, self.lax.max, window, window, "SAME")

    def attention(self, q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        scores = self.matmul(q, k, True) * q.shape[-1] ** -0.5
        if is_causal:
            scores += causal_mask(q.shape[-2])
        return self.matmul(self.softmax(scores), v)

    def loop(self, turns: int, turn: Callable[[Any, Any], Any], start: Any) -> Any:
        def step(h: Any, i: Any) -> Any:
            return turn(i, h), None

        return self.lax.scan(step, start, self.jnp.arange(turns))[0]

    def float(self, x: Any) -> Any:
        return x.astype(self.jnp.float32)

    def loops(self, turns: int, turn: Callable[[Any, Any], Any], start: Sequence[Any]) -> Any:
        def step(state: Any, i: Any) -> Any:
            return tuple(turn(i, state)), None

        return self.lax.scan(step, tuple(start), self.jnp.arange(turns))[0]

    def until(
        self, holds: Callable[[Any], Any], turn: Callable[[Any], Any], start: Sequence[Any]
    ) -> Any:
        return self.lax.while_loop(holds, lambda s: tuple(turn(s)), tuple(start))

    def fold(
        self,
        turn: Callable[[Any, Any], Any],
        state: Sequence[Any],
        rows: Sequence[Any],
        turns: int,
    ) -> Any:
        def step(state: Any, given: Any) -> Any:
            return tuple(turn(state, given)), None

        return self.lax.scan(step, tuple(state), tuple(rows))[0]

    def scan(self, turn: Turn, state: Sequence[Any], rows: Sequence[Any], turns: int) -> Any:
        return self.lax.scan(turn, tuple(state), tuple(rows))[1]


class TorchWords:
    """The operations of PyTorch.

    Args:
        torch: The module.
        sparse: Whether gradients of tables only have the rows that were looked up.
    """

    def __init__(self, torch: Any, sparse: bool) -> None:
        functional = torch.nn.functional
        self.torch, self.functional, self._sparse = torch, functional, sparse
        self.sigmoid, self.tanh, self.square, self.exp = (
            torch.sigmoid,
            torch.tanh,
            torch.square,
            torch.exp,
        )
        self.relu, self.elu, self.softplus = torch.relu, functional.elu, functional.softplus
        self.rsqrt, self.reshape = torch.rsqrt, torch.reshape
        self.argmax, self.argmin = torch.argmax, torch.argmin
        self.sin, self.cos, self.log, self.minimum = torch.sin, torch.cos, torch.log, torch.minimum
        self.where, self.inverse, self.cumsum = torch.where, torch.linalg.inv, torch.cumsum
        self.top_k, self.expand, self.logsumexp = torch.topk, torch.unsqueeze, torch.logsumexp
        self.entropy, self.cholesky = functional.cross_entropy, torch.linalg.cholesky
        self.binary_entropy = functional.binary_cross_entropy_with_logits
        self.abs, self.sqrt = torch.abs, torch.sqrt

    def matmul(self, a: Any, b: Any, transpose_b: bool = False) -> Any:
        return a @ (b.transpose(-1, -2) if transpose_b else b)

    def softmax(self, x: Any) -> Any:
        return self.torch.softmax(x, -1)

    def sum(self, x: Any, axis: int | None = None, keep: bool = False) -> Any:
        return x.sum() if axis is None else x.sum(axis, keepdim=keep)

    def mean(self, x: Any, axis: int | None = None) -> Any:
        return x.mean() if axis is None else x.mean(axis)

    def max(self, x: Any, axis: int) -> Any:
        return x.amax(axis)

    def concat(self, parts: Sequence[Any], axis: int) -> Any:
        return self.torch.cat(list(parts), axis)

    def split(self, x: Any, parts: int, axis: int) -> Any:
        return self.torch.chunk(x, parts, axis)

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        return x.permute(*order)

    def rows(self, table: Any, ids: Any) -> Any:
        return self.functional.embedding(ids, table, sparse=self._sparse)

    def gather(self, table: Any, ids: Any) -> Any:
        return table[ids]

    def segment_sum(self, x: Any, ids: Any, count: int) -> Any:
        return self.torch.zeros(count, x.shape[1]).index_add_(0, ids, x)

    def ones(self, *shape: int) -> Any:
        return self.torch.ones(shape)

    def zeros(self, *shape: int) -> Any:
        return self.torch.zeros(shape)

    def layer_norm(self, x: Any, scale: Any, offset: Any) -> Any:
        return self.functional.layer_norm(x, (x.shape[-1],), scale, offset, EPSILON)

    def batch_norm(self, x: Any, scale: Any, offset: Any) -> Any:
        return self.functional.batch_norm(x, None, None, scale, offset, True, 0.0, EPSILON)

    def log_softmax(self, x: Any) -> Any:
        return self.torch.log_softmax(x, -1)

    def diagonal(self, x: Any) -> Any:
        return self.torch.diagonal(x, dim1=-2, dim2=-1)

    def triangular_solve(self, matrix: Any, right: Any) -> Any:
        return self.torch.linalg.solve_triangular(matrix, right, upper=False)

    def convolution(self, x: Any, filters: Any, stride: int = 1, groups: int = 1) -> Any:
        size = int(filters.shape[0])
        # As in "SAME": an odd padding element is at the end.
        before, after = (size - stride) // 2, size - stride - (size - stride) // 2
        x, filters = x.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1)
        if before == after:
            made = self.functional.conv2d(x, filters, None, stride, before, 1, groups)
        else:
            x = self.functional.pad(x, (before, after, before, after))
            made = self.functional.conv2d(x, filters, None, stride, 0, 1, groups)
        return made.permute(0, 2, 3, 1)

    def depthwise(self, x: Any, filters: Any, stride: int = 1) -> Any:
        return self.convolution(x, filters.permute(0, 1, 3, 2), stride, int(x.shape[-1]))

    def doubled(self, x: Any, filters: Any) -> Any:
        x, filters = x.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1)
        return self.functional.conv_transpose2d(x, filters, None, 2).permute(0, 2, 3, 1)

    def halved(self, x: Any) -> Any:
        return self.functional.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)

    def attention(self, q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        return self.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    def cond(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        return then() if condition else otherwise()

    def loop(self, turns: int, turn: Callable[[Any, Any], Any], start: Any) -> Any:
        for i in range(turns):
            start = turn(i, start)
        return start

    def float(self, x: Any) -> Any:
        return x.to(self.torch.float32)

    def loops(self, turns: int, turn: Callable[[Any, Any], Any], start: Sequence[Any]) -> Any:
        return self.loop(turns, turn, start)

    def until(
        self, holds: Callable[[Any], Any], turn: Callable[[Any], Any], start: Sequence[Any]
    ) -> Any:
        while holds(start):
            start = turn(start)
        return start

    def fold(
        self,
        turn: Callable[[Any, Any], Any],
        state: Sequence[Any],
        rows: Sequence[Any],
        turns: int,
    ) -> Any:
        for i in range(turns):
            state = turn(state, [each[i] for each in rows])
        return state

    def scan(self, turn: Turn, state: Sequence[Any], rows: Sequence[Any], turns: int) -> Any:
        kept = []
        for i in range(turns):
            state, made = turn(state, [each[i] for each in rows])
            kept.append(made)
        return self.torch.stack(kept)


def causal_mask(size: int) -> Any:
    """Returns the causal mask to add to scores, [size, size] float32."""
    return np.where(np.tri(size) > 0, 0, -1e9).astype(np.float32)
