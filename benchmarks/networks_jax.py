"""The networks of `peers.py` as one writes them for JAX: a training step under jit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cnn
import mlp
import networks as n
import session_competitor
from competitor import Case


def make(jax: Any, name: str) -> Case | None:
    """Returns the case with this name; None if there is none."""
    jnp, lax = jax.numpy, jax.lax

    def mlp_loss(p: Any, x: Any, labels: Any) -> Any:
        for layer in range(len(p) // 2):
            x = x @ p[2 * layer] + p[2 * layer + 1]
            if layer < len(p) // 2 - 1:
                x = jax.nn.relu(x)
        return _entropy(x, labels)

    def _entropy(logits: Any, labels: Any) -> Any:
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -jnp.mean(picked)

    def convolved(x: Any, w: Any, order: str) -> Any:
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=(order, "HWIO", order)
        )

    def cnn_loss(p: Any, x: Any, labels: Any) -> Any:
        for layer in (0, 2):
            x = jax.nn.relu(convolved(x, p[layer], "NHWC") + p[layer + 1])
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        x = jax.nn.relu(x.reshape(x.shape[0], -1) @ p[4] + p[5])
        return _entropy(x @ p[6] + p[7], labels)

    def transformer(p: Any, data: Any) -> Any:
        x = data["x"]

        def heads(key: str) -> Any:
            parts = (x @ p[key]).reshape(n.ROWS, n.LENGTH, n.HEADS, -1)
            return parts.transpose(0, 2, 1, 3)

        def normal(h: Any, key: str) -> Any:
            scaled = (h - h.mean(1, keepdims=True)) * lax.rsqrt(h.var(1, keepdims=True) + n.EPSILON)
            return scaled * p[f"{key}_scale"] + p[f"{key}_offset"]

        scores = heads("q") @ heads("k").swapaxes(2, 3) * (n.WIDTH // n.HEADS) ** -0.5
        seen = (jax.nn.softmax(scores) @ heads("v")).transpose(0, 2, 1, 3)
        h = normal(x + seen.reshape(-1, n.WIDTH) @ p["o"], "first")
        inner = jax.nn.relu(h @ p["up"] + p["up_bias"])
        h = normal(h + inner @ p["down"] + p["down_bias"], "second")
        return jnp.mean(jnp.square(h - data["wanted"]))

    def residual(order: str) -> Callable[[Any, Any], Any]:
        channel = order.index("C")
        shape = [1, 1, 1, 1]
        shape[channel] = n.CHANNELS
        over = tuple(axis for axis in range(4) if axis != channel)

        def layer(p: Any, h: Any, key: str) -> Any:
            h = convolved(h, p[key], order)
            mean, variance = h.mean(over, keepdims=True), h.var(over, keepdims=True)
            scaled = (h - mean) * lax.rsqrt(variance + n.EPSILON)
            scale, offset = p[f"{key}_scale"], p[f"{key}_offset"]
            return scaled * scale.reshape(shape) + offset.reshape(shape)

        def loss(p: Any, data: Any) -> Any:
            h = jax.nn.relu(layer(p, data["x"], "first"))
            h = jax.nn.relu(layer(p, h, "second") + data["x"])
            return jnp.mean(jnp.square(h - data["wanted"]))

        return loss

    def recommender(p: Any, data: Any) -> Any:
        def dense(h: Any, key: str) -> Any:
            return h @ p[key] + p[f"{key}_bias"]

        low = jax.nn.relu(dense(jax.nn.relu(dense(data["numbers"], "low1")), "low2"))
        rows = [p[f"table{i}"][data["ids"][i]] for i in range(n.TABLES)]
        together = jnp.stack([low, *rows], 1)
        products = together @ together.swapaxes(1, 2)
        pairs = products.reshape(n.CLICKS, -1)[:, n.PAIRS]
        logits = dense(jax.nn.relu(dense(jnp.concatenate([low, pairs], 1), "top1")), "top2")
        z, clicked = logits.reshape(-1), data["clicked"]
        return jnp.mean(jnp.maximum(z, 0) - z * clicked + jnp.log1p(jnp.exp(-jnp.abs(z))))

    def trained(loss: Callable[..., Any], p: Any, *data: Any, rate: float = n.RATE) -> Case:
        state = [jax.tree.map(jnp.asarray, p)]
        given = jax.tree.map(jnp.asarray, data)

        def step(p: Any, *data: Any) -> Any:
            value, grads = jax.value_and_grad(loss)(p, *data)
            return value, jax.tree.map(lambda v, g: v - rate * g, p, grads)

        return _case(jax, jax.jit(step, donate_argnums=0), state, given)

    def adam(loss: Callable[..., Any], p: Any, *data: Any) -> Case:
        zeros = [jnp.zeros_like(each) for each in p]
        state = [([jnp.asarray(each) for each in p], zeros, list(zeros), jnp.float32(0))]
        given = jax.tree.map(jnp.asarray, data)

        def step(state: Any, *data: Any) -> Any:
            p, m, v, count = state
            value, grads = jax.value_and_grad(loss)(p, *data)
            count = count + 1
            rate = mlp.ADAM_LEARNING_RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            m = [0.9 * a + 0.1 * g for a, g in zip(m, grads, strict=True)]
            v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads, strict=True)]
            p = [a - rate * b / (jnp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v, strict=True)]
            return value, (p, m, v, count)

        return _case(jax, jax.jit(step), state, given)

    losses: Mapping[str, Callable[..., Any]] = {
        "transformer": transformer,
        "residual_nhwc": residual("NHWC"),
        "residual_nchw": residual("NCHW"),
        "recommender": recommender,
    }
    if name in losses:
        values, data = n.NETWORKS[name]()
        return trained(losses[name], values, n.channels_first(name, data))
    if name == "mlp":
        return trained(mlp_loss, mlp.initial_values(), *mlp.batch(), rate=mlp.LEARNING_RATE)
    if name == "mlp_large":
        values = mlp.initial_values(mlp.LARGE_SIZES)
        return adam(mlp_loss, values, *mlp.batch(rows=mlp.LARGE_BATCH))
    if name == "cnn":
        return trained(cnn_loss, cnn.initial_values(), *cnn.batch(), rate=cnn.LEARNING_RATE)
    if name in ("add", "chain"):
        x, y = jnp.asarray(session_competitor.X), jnp.asarray(session_competitor.Y)
        plain = {
            "add": lambda x, y: x + y,
            "chain": lambda x, y: session_competitor.chain(jnp, x, y),
        }
        compiled = jax.jit(plain[name])
        return Case(lambda: jax.block_until_ready(compiled(x, y)), compiled(x, y).tolist())
    return None


def _case(jax: Any, step: Callable[..., Any], state: list[Any], data: Any) -> Case:
    def call() -> float:
        value, state[0] = step(state[0], *data)
        jax.block_until_ready(state[0])
        return float(value)

    return Case(call, [call() for _ in range(5)])
