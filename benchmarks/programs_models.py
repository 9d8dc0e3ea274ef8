"""Models of further kinds; each written once, as in `programs_cases`.

They were written after the earlier ones had become fast (2026-11-28): nothing was tuned with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from programs_cases import Program, _ids, _normal, _ones, _weights, _zeros


def _filters(size: int, inputs: int, outputs: int) -> Any:
    return _normal(size, size, inputs, outputs) / np.float32(size * np.sqrt(inputs))


def _mobile() -> Program:
    rows, width = 8, 28

    def loss(w: Any, p: Any, d: Any) -> Any:
        def norm(x: Any, n: int) -> Any:
            flat = w.reshape(x, (-1, int(x.shape[-1])))
            return w.reshape(w.batch_norm(flat, p[f"s{n}"], p[f"o{n}"]), x.shape)

        x = d["x"]
        for n in range(2):
            x = w.relu(norm(w.depthwise(x, p[f"deep{n}"], 1 + n), 2 * n))
            x = w.relu(norm(w.convolution(x, p[f"wide{n}"]), 2 * n + 1))
        x = w.mean(w.reshape(x, (rows, -1, 128)), 1)
        return w.entropy(w.matmul(x, p["out"]), d["y"])

    p = {"deep0": _filters(3, 1, 32).reshape(3, 3, 32, 1), "wide0": _filters(1, 32, 64)}
    p |= {"deep1": _filters(3, 1, 64).reshape(3, 3, 64, 1), "wide1": _filters(1, 64, 128)}
    for n, channels in enumerate((32, 64, 64, 128)):
        p |= {f"s{n}": _ones(channels), f"o{n}": _zeros(channels)}
    p["out"] = _weights(128, 10)
    data = {"x": _normal(rows, width, width, 32), "y": _ids(10, rows)}
    text = "two depthwise separable blocks, 8 × 28 × 28 × 32, batch norm, Momentum"
    return Program(text, p, data, loss, "momentum", False)


def _segmentation() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        upper = w.relu(w.convolution(d["x"], p["a"]))
        lower = w.relu(w.convolution(w.halved(upper), p["b"]))
        both = w.concat([upper, w.doubled(lower, p["up"])], 3)
        x = w.relu(w.convolution(both, p["c"]))
        logits = w.convolution(x, p["out"])
        return w.entropy(w.reshape(logits, (-1, 4)), w.reshape(d["y"], (-1,)))

    p = {"a": _filters(3, 3, 16), "b": _filters(3, 16, 32), "up": _filters(2, 16, 32)}
    p |= {"c": _filters(3, 32, 16), "out": _filters(1, 16, 4)}
    data = {"x": _normal(4, 48, 48, 3), "y": _ids(4, 4, 48, 48)}
    text = "U-Net of one step down, 4 × 48 × 48, 4 classes by pixel, Adam"
    return Program(text, p, data, loss, "adam", False)


def _waves() -> Program:
    rows, length, width = 8, 128, 32

    def loss(w: Any, p: Any, d: Any) -> Any:
        x = d["x"]
        for n in range(4):
            back = 2**n
            before = w.concat([w.zeros(rows, back, width), x[:, :-back]], 1)
            both = w.reshape(w.concat([before, x], 2), (rows * length, 2 * width))
            made = w.tanh(w.matmul(both, p[f"t{n}"])) * w.sigmoid(w.matmul(both, p[f"g{n}"]))
            x = x + w.reshape(w.matmul(made, p[f"o{n}"]), (rows, length, width))
        return w.mean(w.square(x[:, :-1] - d["x"][:, 1:]))

    p = {f"{k}{n}": _weights(2 * width, width) for k in "tg" for n in range(4)}
    p |= {f"o{n}": _weights(width, width) for n in range(4)}
    text = "four dilated causal convolutions with gates, 8 × 128 × 32, SGD"
    return Program(text, p, {"x": _normal(rows, length, width)}, loss, "sgd", False)


def _graph() -> Program:
    nodes, edges = 500, 3000

    def loss(w: Any, p: Any, d: Any) -> Any:
        def spread(x: Any) -> Any:
            return w.segment_sum(w.gather(x, d["from"]) * d["weight"], d["to"], nodes)

        x = w.relu(w.matmul(spread(d["x"]), p["a"]))
        return w.entropy(w.matmul(spread(x), p["b"]), d["y"])

    p = {"a": _weights(32, 64), "b": _weights(64, 7)}
    data = {"x": _normal(nodes, 32), "from": _ids(nodes, edges), "to": _ids(nodes, edges)}
    data |= {"weight": np.abs(_normal(edges, 1)) / 6, "y": _ids(7, nodes)}
    text = "graph convolutions over 500 nodes and 3,000 edges, Adam"
    return Program(text, p, data, loss, "adam", False)


def _latent() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        h = w.relu(w.matmul(d["x"], p["in"]) + p["in_bias"])
        mean, spread = w.split(w.matmul(h, p["code"]), 2, 1)
        z = mean + w.exp(0.5 * spread) * d["noise"]
        h = w.relu(w.matmul(z, p["back"]) + p["back_bias"])
        error = w.binary_entropy(w.matmul(h, p["out"]), d["x"])
        return error - 0.001 * w.mean(1.0 + spread - w.square(mean) - w.exp(spread))

    p = {"in": _weights(784, 200), "in_bias": _zeros(200), "code": _weights(200, 40)}
    p |= {"back": _weights(20, 200), "back_bias": _zeros(200), "out": _weights(200, 784)}
    data = {"x": np.abs(np.tanh(_normal(64, 784))), "noise": _normal(64, 20)}
    return Program(
        "variational autoencoder 784-200-20, batch 64, Momentum", p, data, loss, "momentum"
    )


def _mixture() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        h = w.tanh(w.matmul(d["x"], p["in"]) + p["in_bias"])
        shares, means, spreads = w.split(w.matmul(h, p["out"]) + p["out_bias"], 3, 1)
        far = (d["y"] - means) * w.exp(-spreads)
        each = w.log_softmax(shares) - spreads - 0.5 * w.square(far)
        return -w.mean(w.logsumexp(each, 1))

    p = {"in": _weights(8, 48), "in_bias": _zeros(48), "out": _weights(48, 15)}
    p["out_bias"] = _zeros(15)
    data = {"x": _normal(256, 8), "y": _normal(256, 1)}
    return Program("mixture density network of 5 parts, batch 256, Adam", p, data, loss, "adam")


def _policy() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        h = w.tanh(w.matmul(d["x"], p["a"]) + p["a_bias"])
        h = w.tanh(w.matmul(h, p["b"]) + p["b_bias"])
        chances = w.log_softmax(w.matmul(h, p["act"]))
        ratio = w.exp(w.sum(chances * d["taken"], 1) - d["before"])
        bounded = w.minimum(ratio, 0.0 * ratio + 1.2)
        gain = w.mean(w.minimum(ratio * d["gain"], bounded * d["gain"]))
        value = w.reshape(w.matmul(h, p["value"]), (-1,))
        spread = w.mean(w.sum(w.exp(chances) * chances, 1))
        return 0.5 * w.mean(w.square(value - d["returns"])) - gain + 0.01 * spread

    p = {"a": _weights(8, 64), "a_bias": _zeros(64), "b": _weights(64, 64), "b_bias": _zeros(64)}
    p |= {"act": _weights(64, 4), "value": _weights(64, 1)}
    data = {"x": _normal(256, 8), "taken": np.eye(4, dtype=np.float32)[_ids(4, 256)]}
    data |= {"before": -np.abs(_normal(256)), "gain": _normal(256), "returns": _normal(256)}
    return Program("a step of PPO, 8-64-64, 4 actions, batch 256, Adam", p, data, loss, "adam")


def _fields() -> Program:
    rows, fields, size = 512, 20, 8

    def loss(w: Any, p: Any, d: Any) -> Any:
        found = w.reshape(w.rows(p["factors"], d["ids"]), (rows, fields, size))
        pairs = w.square(w.sum(found, 1)) - w.sum(w.square(found), 1)
        linear = w.sum(w.reshape(w.rows(p["linear"], d["ids"]), (rows, fields)), 1)
        return w.binary_entropy(0.5 * w.sum(pairs, 1) + linear + p["bias"], d["y"])

    p = {"factors": _weights(50_000, size) * 3, "linear": _zeros(50_000, 1), "bias": _zeros(1)}
    data = {"ids": _ids(50_000, rows, fields), "y": _ids(2, rows).astype(np.float32)}
    text = "factorisation machine, 20 fields of 50,000, batch 512, Adagrad"
    return Program(text, p, data, loss, "adagrad", is_sparse=True)


def _process() -> Program:
    rows = 48

    def loss(w: Any, p: Any, d: Any) -> Any:
        x = d["x"] * w.exp(p["scale"])
        squares = w.sum(x * x, 1, True)
        far = squares + w.transpose(squares, (1, 0)) - 2.0 * w.matmul(x, x, True)
        matrix = w.exp(-0.5 * far) + (0.01 + w.exp(p["noise"])) * d["one"]
        root = w.cholesky(matrix)
        solved = w.triangular_solve(root, d["y"])
        return 0.5 * w.sum(solved * solved) + w.sum(w.log(w.diagonal(root)))

    p = {"scale": _zeros(6), "noise": _zeros(1)}
    data = {"x": _normal(rows, 6), "y": _normal(rows, 1), "one": np.eye(rows, dtype=np.float32)}
    return Program("a Gaussian process of 48 points, SGD", p, data, loss, "sgd", False)


def _contrast() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        def seen(x: Any) -> Any:
            h = w.matmul(w.relu(w.matmul(x, p["in"])), p["out"])
            return h * w.rsqrt(w.sum(w.square(h), 1, True) + 1e-6)

        scores = 10.0 * w.matmul(seen(d["a"]), seen(d["b"]), True)
        mirrored = w.transpose(scores, (1, 0))
        return w.entropy(scores, d["places"]) + w.entropy(mirrored, d["places"])

    p = {"in": _weights(64, 128), "out": _weights(128, 32)}
    data = {"a": _normal(128, 64), "b": _normal(128, 64), "places": np.arange(128)}
    return Program("contrastive loss of 128 pairs, SGD", p, data, loss, "sgd")


def _markov() -> Program:
    rows, turns, states = 16, 50, 12

    def loss(w: Any, p: Any, d: Any) -> Any:
        moves = w.expand(w.log_softmax(p["moves"]), 0)

        def turn(state: Any, given: Any) -> Any:
            return (w.logsumexp(w.expand(state[0], 2) + moves, 1) + given[0],)

        (end,) = w.fold(turn, [d["x"][0]], [d["x"][1:]], turns - 1)
        return -w.mean(w.logsumexp(end, 1))

    p = {"moves": _normal(states, states)}
    text = "a hidden Markov model of 12 states, 50 steps, batch 16, SGD"
    data = {"x": _normal(turns, rows, states)}
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


MODELS: Mapping[str, Program] = {
    "mobile": _mobile(),
    "segmentation": _segmentation(),
    "waves": _waves(),
    "graph": _graph(),
    "latent": _latent(),
    "mixture": _mixture(),
    "policy": _policy(),
    "fields": _fields(),
    "process": _process(),
    "contrast": _contrast(),
    "markov": _markov(),
}
