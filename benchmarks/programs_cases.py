"""Typical training programs, each written once: see `programs_words.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Values = dict[str, Array]
Loss = Callable[[Any, Any, Any], Any]
"""A function of the library's words, the parameters and the data."""
_generator = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Program:
    """A program.

    Attributes:
        text: Its description in tables.
        parameters: The initial values of the parameters.
        data: Its inputs.
        compute: Returns the loss, or the result.
        optimizer: A key of `OPTIMIZERS`; None to compute the result only, "" to compute the
            parameters' gradients, too.
        fed: Whether the data are fed in every step.
        is_loop: Whether it has a loop, which `torch.compile` would unroll for minutes.
        is_sparse: Whether gradients of tables are sparse.
    """

    text: str
    parameters: Values
    data: Values
    compute: Loss
    optimizer: str | None
    fed: bool = True
    is_loop: bool = False
    is_sparse: bool = False


def _weights(*shape: int) -> Array:
    return _generator.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))


def _normal(*shape: int) -> Array:
    return _generator.standard_normal(shape, np.float32)


def _ids(count: int, *shape: int) -> Array:
    return _generator.integers(0, count, shape)


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def _dense(sizes: list[int], has_norm: bool = False) -> Values:
    values = {}
    for n, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        values |= {f"w{n}": _weights(inputs, outputs), f"b{n}": _zeros(outputs)}
        if has_norm:
            values |= {f"s{n}": _ones(outputs), f"o{n}": _zeros(outputs)}
    return values


def _mlp(layers: int, act: Callable[..., Any], norm: str = "") -> Callable[..., Any]:
    """Returns the logits of dense layers."""

    def logits(w: Any, p: Any, x: Any) -> Any:
        for n in range(layers):
            x = w.matmul(x, p[f"w{n}"]) + p[f"b{n}"]
            if n < layers - 1:
                x = act(w, getattr(w, norm)(x, p[f"s{n}"], p[f"o{n}"]) if norm else x)
        return x

    return logits


def _gelu(w: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + w.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _classifier(
    text: str,
    sizes: list[int],
    rows: int,
    act: Callable[..., Any],
    optimizer: str,
    norm: str = "",
) -> Program:
    logits = _mlp(len(sizes) - 1, act, norm)
    data = {"x": _normal(rows, sizes[0]) / np.float32(np.sqrt(sizes[0]))}
    data["y"] = _ids(sizes[-1], rows)

    def loss(w: Any, p: Any, d: Any) -> Any:
        return w.entropy(logits(w, p, d["x"]), d["y"])

    return Program(text, _dense(sizes, bool(norm)), data, loss, optimizer)


def _gru_values(inputs: int, units: int) -> Values:
    both = inputs + units
    gates = {"gates": _weights(both, 2 * units), "gates_bias": _ones(2 * units)}
    return {**gates, "new": _weights(both, units), "new_bias": _zeros(units)}


def _gru(w: Any, p: Any, h: Any, x: Any) -> Any:
    gates = w.sigmoid(w.matmul(w.concat([x, h], 1), p["gates"]) + p["gates_bias"])
    reset, update = w.split(gates, 2, 1)
    new = w.tanh(w.matmul(w.concat([x, reset * h], 1), p["new"]) + p["new_bias"])
    return update * h + (1.0 - update) * new


def _gru_program(rows: int, turns: int, inputs: int, units: int) -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            h = _gru(w, p, state[0], given[0])
            return (h,), h

        made = w.scan(turn, [w.zeros(rows, units)], [d["x"]], turns)
        return w.mean(w.square(made - 0.3))

    text = f"GRU of {units} units, {turns} steps, batch {rows}, SGD"
    data = {"x": _normal(turns, rows, inputs)}
    return Program(text, _gru_values(inputs, units), data, loss, "sgd", False, is_loop=True)


def _language_model() -> Program:
    rows, turns, units, letters = 32, 32, 128, 80

    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            h = _gru(w, p, state[0], given[0])
            return (h,), h

        made = w.scan(turn, [w.zeros(rows, units)], [w.rows(p["letters"], d["ids"])], turns)
        logits = w.matmul(w.reshape(made, (-1, units)), p["out"]) + p["bias"]
        return w.entropy(logits, w.reshape(d["next"], (-1,)))

    p = {"letters": _weights(letters, units), "out": _weights(units, letters)}
    p |= {"bias": _zeros(letters), **_gru_values(units, units)}
    data = {"ids": _ids(letters, turns, rows), "next": _ids(letters, turns, rows)}
    text = "language model of letters: embedding, GRU of 128, Adam with clipping"
    return Program(text, p, data, loss, "clipped", is_loop=True)


def _translation() -> Program:
    rows, length, units, turns, words = 16, 20, 64, 20, 100

    def loss(w: Any, p: Any, d: Any) -> Any:
        memory = d["memory"]
        keys = w.matmul(w.reshape(memory, (rows * length, units)), p["keys"])
        keys = w.reshape(keys, (rows, length, units))

        def turn(state: Any, given: Any) -> Any:
            h = _gru(w, p, state[0], w.concat([given[0], state[1]], 1))
            asked = w.reshape(w.matmul(h, p["query"]), (rows, 1, units))
            share = w.softmax(w.sum(w.tanh(keys + asked) * p["score"], 2))
            seen = w.sum(w.reshape(share, (rows, length, 1)) * memory, 1)
            return (h, seen), w.concat([h, seen], 1)

        start = [w.zeros(rows, units)] * 2
        made = w.scan(turn, start, [w.rows(p["words"], d["ids"])], turns)
        logits = w.matmul(w.reshape(made, (-1, 2 * units)), p["out"])
        return w.entropy(logits, w.reshape(d["next"], (-1,)))

    p = {"keys": _weights(units, units), "query": _weights(units, units), "score": _weights(units)}
    p |= {"words": _weights(words, units), "out": _weights(2 * units, words)}
    p |= _gru_values(2 * units, units)
    data = {"memory": _normal(rows, length, units)}
    data |= {"ids": _ids(words, turns, rows), "next": _ids(words, turns, rows)}
    text = "decoder with attention over 20 places, 20 steps, SGD"
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


def _written() -> Program:
    """Generates text with a trained model: the most likely word is its next input."""
    rows, units, words = 8, 64, 100

    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(_: Any, h: Any) -> Any:
            word = w.argmax(w.matmul(h, p["out"]), 1)
            return _gru(w, p, h, w.gather(p["words"], word))

        return w.loop(50, turn, d["h"])

    p = {
        "words": _weights(words, units),
        "out": _weights(units, words),
        **_gru_values(units, units),
    }
    text = "greedy decoding, 50 words: GRU of 64, argmax, embedding"
    return Program(text, p, {"h": _normal(rows, units)}, compute, None, False, is_loop=True)


def _looped(text: str, turn: Callable[..., Any], values: Values, optimizer: str | None) -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        end = w.loop(100, lambda i, h: turn(w, p, i, h), d["h"])
        return end if optimizer is None else w.sum(end * end * end)

    return Program(text, values, {"h": _normal(8, 32)}, compute, optimizer, False, is_loop=True)


def _rows_turn(w: Any, p: Any, i: Any, h: Any) -> Any:
    return w.tanh(h + w.gather(p["table"], i))


def _branch_turn(w: Any, p: Any, i: Any, h: Any) -> Any:
    is_positive = w.sum(h) > 0
    return w.cond(is_positive, lambda: w.tanh(w.matmul(h, p["w"])) - 0.1, lambda: h * 0.5 + 0.2)


def _autoencoder() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        h = w.sigmoid(w.matmul(d["x"], p["w0"]) + p["b0"])
        h = w.sigmoid(w.matmul(h, p["w1"]) + p["b1"])
        h = w.sigmoid(w.matmul(h, p["w1"], True) + p["b2"])
        return w.binary_entropy(w.matmul(h, p["w0"], True) + p["b3"], d["x"])

    p = {"w0": _weights(784, 256), "b0": _zeros(256), "w1": _weights(256, 32), "b1": _zeros(32)}
    p |= {"b2": _zeros(256), "b3": _zeros(784)}
    data = {"x": _generator.random((128, 784), np.float32)}
    return Program("autoencoder 784-256-32, tied weights, batch 128, Adam", p, data, loss, "adam")


def _factors() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        u, v = w.rows(p["users"], d["user"]), w.rows(p["films"], d["film"])
        error = w.sum(u * v, 1) - d["stars"]
        return w.mean(w.square(error)) + 0.01 * (w.mean(w.square(u)) + w.mean(w.square(v)))

    p = {"users": _weights(10_000, 32), "films": _weights(5_000, 32)}
    data = {"user": _ids(10_000, 1024), "film": _ids(5_000, 1024), "stars": _normal(1024)}
    text = "matrix factorisation, 10,000 × 5,000 × 32, batch 1,024, Adagrad"
    return Program(text, p, data, loss, "adagrad", is_sparse=True)


def _wide_deep() -> Program:
    rows, columns = 256, 8

    def loss(w: Any, p: Any, d: Any) -> Any:
        wide = w.sum(w.reshape(w.rows(p["wide"], d["ids"]), (rows, columns)), 1)
        deep = w.reshape(w.rows(p["deep"], d["ids"]), (rows, columns * 16))
        logits = _mlp(3, lambda w, x: w.relu(x))(w, p, w.concat([deep, d["numbers"]], 1))
        return w.binary_entropy(wide + w.reshape(logits, (rows,)), d["y"])

    p = {"wide": _zeros(20_000, 1), "deep": _weights(20_000, 16), **_dense([141, 128, 64, 1])}
    data = {"ids": _ids(20_000, rows, columns), "numbers": _normal(rows, 13)}
    data["y"] = _ids(2, rows).astype(np.float32)
    return Program(
        "wide & deep, 8 columns of 20,000, Adagrad", p, data, loss, "adagrad", is_sparse=True
    )


def _words() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        h, near = w.rows(p["in"], d["word"]), w.rows(p["out"], d["near"])
        others = w.matmul(h, w.rows(p["out"], d["others"]), True)
        return w.mean(w.softplus(-w.sum(h * near, 1))) + w.mean(w.sum(w.softplus(others), 1))

    p = {"in": _weights(20_000, 128), "out": _weights(20_000, 128)}
    data = {"word": _ids(20_000, 128), "near": _ids(20_000, 128), "others": _ids(20_000, 64)}
    return Program("word2vec, 64 samples, batch 128, SGD", p, data, loss, "sgd", is_sparse=True)


def _decoder(text: str, rows: int, length: int, width: int, optimizer: str | None) -> Program:
    heads = 4

    def compute(w: Any, p: Any, d: Any) -> Any:
        def attention(x: Any, y: Any, key: str, is_causal: bool) -> Any:
            def parts(of: Any, name: str) -> Any:
                made = w.reshape(w.matmul(of, p[key + name]), (rows, length, heads, width // heads))
                return w.transpose(made, (0, 2, 1, 3))

            seen = w.attention(parts(x, "q"), parts(y, "k"), parts(y, "v"), is_causal)
            seen = w.reshape(w.transpose(seen, (0, 2, 1, 3)), (rows * length, width))
            return w.matmul(seen, p[key + "o"])

        x = d["x"]
        x = w.layer_norm(x + attention(x, x, "own_", True), p["s0"], p["o0"])
        x = w.layer_norm(x + attention(x, d["memory"], "other_", False), p["s1"], p["o1"])
        inner = w.matmul(_gelu(w, w.matmul(x, p["up"])), p["down"])
        x = w.layer_norm(x + inner, p["s2"], p["o2"])
        return x if optimizer is None else w.mean(w.square(x - d["wanted"]))

    p = {f"{k}_{n}": _weights(width, width) for k in ("own", "other") for n in "qkvo"}
    p |= {"up": _weights(width, 4 * width), "down": _weights(4 * width, width)}
    p |= {f"s{n}": _ones(width) for n in range(3)} | {f"o{n}": _zeros(width) for n in range(3)}
    data = {name: _normal(rows * length, width) for name in ("x", "memory", "wanted")}
    return Program(text, p, data, compute, optimizer, False)


def _regression() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        return w.binary_entropy(w.matmul(d["x"], p["w"]) + p["b"], d["y"])

    data = {"x": _normal(1000, 28), "y": _ids(2, 1000, 1).astype(np.float32)}
    p = {"w": _zeros(28, 1), "b": _zeros(1)}
    return Program("logistic regression, 28 columns, batch 1,000, SGD", p, data, loss, "sgd")


def _clusters() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        x, centers = d["x"], p["centers"]
        far = w.sum(x * x, 1, True) - 2.0 * w.matmul(x, centers, True) + w.sum(centers * centers, 1)
        nearest = w.argmin(far, 1)
        return w.segment_sum(x, nearest, 20), w.segment_sum(w.ones(2000, 1), nearest, 20)

    p = {"centers": 4 * _normal(20, 16)}
    return Program(
        "a step of k-means, 2,000 × 16, 20 clusters", p, {"x": _normal(2000, 16)}, compute, None
    )


def _served(text: str, sizes: list[int], rows: int) -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        return w.softmax(_mlp(len(sizes) - 1, lambda w, x: w.relu(x))(w, p, d["x"]))

    return Program(text, _dense(sizes), {"x": _normal(rows, sizes[0])}, compute, None)


def _fed() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        x = d["x"]
        return w.sum(x, 1), w.max(x, 0), w.matmul(x, p["w"]), x * 2.0

    return Program(
        "1 MB fed, four fetches", {"w": _weights(256, 8)}, {"x": _normal(1024, 256)}, compute, None
    )


_TABLE, _W = {"table": _weights(100, 8, 32)}, {"w": _weights(32, 32)}
PROGRAMS: Mapping[str, Program] = {
    "rows": _looped("while_loop, 100 turns of tanh(h + table[i])", _rows_turn, _TABLE, None),
    "rows_gradient": _looped("the gradient of turns with rows", _rows_turn, _TABLE, ""),
    "branch": _looped("while_loop, 100 turns with a branch", _branch_turn, _W, None),
    "branch_gradient": _looped("the gradient of turns with a branch", _branch_turn, _W, ""),
    "gru_1": _gru_program(1, 20, 16, 32),
    "gru_32": _gru_program(32, 40, 16, 64),
    "written": _written(),
    "translation": _translation(),
    "language": _language_model(),
    "mlp_1": _classifier(
        "MLP 784-128-10, batch 1, tanh, SGD", [784, 128, 10], 1, lambda w, x: w.tanh(x), "sgd"
    ),
    "mlp_16": _classifier(
        "MLP 784-300-100-10, batch 16, sigmoid, Momentum",
        [784, 300, 100, 10],
        16,
        lambda w, x: w.sigmoid(x),
        "momentum",
    ),
    "mlp_32": _classifier(
        "MLP 256-512-512-10, batch 32, GELU, layer norm, Adam with clipping",
        [256, 512, 512, 10],
        32,
        _gelu,
        "clipped",
        "layer_norm",
    ),
    "mlp_128": _classifier(
        "MLP 784-256-256-10, batch 128, batch norm, RMSProp",
        [784, 256, 256, 10],
        128,
        lambda w, x: w.relu(x),
        "rmsprop",
        "batch_norm",
    ),
    "mlp_deep": _classifier(
        "MLP of 12 layers of 64, batch 64, ELU, Momentum",
        [64] * 12 + [10],
        64,
        lambda w, x: w.elu(x),
        "momentum",
    ),
    "served_1": _served("MLP 784-256-128-10 served, batch 1", [784, 256, 128, 10], 1),
    "autoencoder": _autoencoder(),
    "factors": _factors(),
    "wide_deep": _wide_deep(),
    "words": _words(),
    "decoder": _decoder("transformer decoder layer, width 128, 8 × 64, SGD", 8, 64, 128, "sgd"),
    "decoder_served": _decoder("the same served, 1 × 32", 1, 32, 128, None),
    "regression": _regression(),
    "clusters": _clusters(),
    "fed": _fed(),
}
