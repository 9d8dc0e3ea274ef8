"""The cases of `loops.py` as one writes them for JAX: `lax.scan` and `lax.fori_loop` under jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from competitor import Case, load_jax, serve
from loops_competitor import (
    CELL_TURNS,
    CELL_W,
    CELL_X,
    KERNEL,
    SEQUENCES,
    TURNS,
    UNITS,
    X,
    case,
)


def run(threads: int) -> None:
    """Serves the cases on this many processors, since JAX has no setting for threads."""
    jax = load_jax(threads)
    if jax is not None:
        serve(cases(jax), f"JAX {jax.__version__}")


def cases(jax: Any) -> Callable[[str], Case | None]:
    """Returns the cases of JAX."""
    jnp, lax = jax.numpy, jax.lax

    def turns(x: Any) -> Any:
        return lax.fori_loop(0, TURNS, lambda _, y: y * 0.999 + x, x)

    def cells(x: Any, w: Any) -> Any:
        def turn(h: Any, _: Any) -> Any:
            return jnp.tanh(h @ w + x), None

        return lax.scan(turn, jnp.zeros_like(x), None, length=CELL_TURNS)[0]

    def cells_forward(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, CELL_TURNS, lambda _, h: jnp.tanh(h @ w + x), jnp.zeros_like(x))

    def lstm(parameters: Any, sequences: Any) -> Any:
        kernel, bias = parameters

        def turn(state: Any, x: Any) -> Any:
            c, h = state
            i, j, f, o = jnp.split(jnp.concatenate([x, h], 1) @ kernel + bias, 4, 1)
            c = c * jax.nn.sigmoid(f + 1.0) + jax.nn.sigmoid(i) * jnp.tanh(j)
            h = jnp.tanh(c) * jax.nn.sigmoid(o)
            return (c, h), h

        zeros = jnp.zeros((sequences.shape[1], UNITS))
        return lax.scan(turn, (zeros, zeros), sequences)

    def last_loss(parameters: Any, sequences: Any) -> Any:
        return jnp.mean(jnp.square(lstm(parameters, sequences)[0][1] - 0.5))

    def whole_loss(parameters: Any, sequences: Any) -> Any:
        return jnp.mean(jnp.square(lstm(parameters, sequences)[1] - 0.5))

    def trained(loss: Callable[..., Any]) -> Case:
        state = [(jnp.asarray(KERNEL), jnp.zeros(4 * UNITS))]
        sequences = jnp.asarray(SEQUENCES)

        @jax.jit
        def step(parameters: Any, sequences: Any) -> Any:
            value, grads = jax.value_and_grad(loss)(parameters, sequences)
            return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, grads)

        def call() -> Any:
            value, state[0] = step(state[0], sequences)
            jax.block_until_ready(state[0])
            return value

        return case(call)

    def plain(function: Callable[..., Any], *values: Any) -> Case:
        compiled, given = jax.jit(function), [jnp.asarray(value) for value in values]
        return case(lambda: jax.block_until_ready(compiled(*given)))

    def summed(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: jnp.sum(function(*values))

    def scanned(x: Any) -> Any:  # differentiable, since it becomes a scan
        return jnp.sum(turns(x))

    def gradients(x: Any, w: Any) -> Any:
        dx, dw = jax.grad(summed(cells), (0, 1))(x, w)
        return dw + 0 * jnp.sum(dx)

    def make(name: str) -> Case | None:
        match name:
            case "while":
                return plain(turns, X)
            case "while_gradient":
                return plain(jax.grad(scanned), X)
            case "cell":
                return plain(cells_forward, CELL_X, CELL_W)
            case "cell_gradient":
                return plain(gradients, CELL_X, CELL_W)
            case "lstm":
                return trained(last_loss)
            case "dynamic_rnn":
                return trained(whole_loss)
        return None

    return make
