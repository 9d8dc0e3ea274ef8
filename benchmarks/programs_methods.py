"""Models and numerical methods of further kinds; each written once, as in `programs_cases`.

They were written after the programs of the other modules had become fast (2026-11-28): nothing was
tuned with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from programs_cases import Program, _dense, _ids, _mlp, _normal, _ones, _weights, _zeros


def _capsules() -> Program:
    rows, inputs, outputs, size = 16, 64, 10, 8

    def loss(w: Any, p: Any, d: Any) -> Any:
        seen = w.reshape(w.matmul(d["x"], p["in"]), (rows, inputs, 1, size))
        votes = w.reshape(
            w.matmul(w.reshape(seen, (-1, size)), p["votes"]), (rows, inputs, outputs, size)
        )
        scores = w.zeros(rows, inputs, outputs)
        for _ in range(3):
            shares = w.expand(w.softmax(scores), 3)
            wanted = w.sum(shares * votes, 1)
            squares = w.sum(w.square(wanted), 2, True)
            poses = wanted * (squares / (1.0 + squares)) * w.rsqrt(squares + 1e-7)
            scores = scores + w.sum(votes * w.expand(poses, 1), 3)
        lengths = w.sqrt(w.sum(w.square(poses), 2) + 1e-7)
        there = d["y"] * w.square(w.relu(0.9 - lengths))
        absent = 0.5 * (1.0 - d["y"]) * w.square(w.relu(lengths - 0.1))
        return w.mean(w.sum(there + absent, 1))

    p = {"in": _weights(128, inputs * size), "votes": _weights(size, outputs * size)}
    data = {"x": _normal(rows, 128), "y": np.eye(10, dtype=np.float32)[_ids(10, rows)]}
    return Program(
        "capsule network, 3 routing iterations, 64 to 10, batch 16, SGD", p, data, loss, "sgd"
    )


def _flow() -> Program:
    layers, half = 4, 8

    def loss(w: Any, p: Any, d: Any) -> Any:
        first, second = w.split(d["x"], 2, 1)
        volume = 0.0
        for n in range(layers):
            h = w.tanh(w.matmul(first, p[f"a{n}"]) + p[f"b{n}"])
            scale, shift = w.split(w.matmul(h, p[f"c{n}"]), 2, 1)
            scale = w.tanh(scale)
            first, second = second * w.exp(scale) + shift, first
            volume = volume + w.sum(scale, 1)
        return w.mean(0.5 * w.sum(w.square(first) + w.square(second), 1) - volume)

    p = {f"a{n}": _weights(half, 64) for n in range(layers)}
    p |= {f"b{n}": _zeros(64) for n in range(layers)}
    p |= {f"c{n}": 0.1 * _weights(64, 2 * half) for n in range(layers)}
    data = {"x": _normal(256, 2 * half)}
    return Program("normalizing flow of 4 coupling layers, batch 256, Adam", p, data, loss, "adam")


def _dqn() -> Program:
    logits = _mlp(3, lambda w, x: w.relu(x))

    def loss(w: Any, p: Any, d: Any) -> Any:
        now = w.sum(logits(w, p, d["x"]) * d["taken"], 1)
        later = logits(w, d, d["next"])
        wanted = d["reward"] + 0.99 * d["lives"] * w.max(later, 1)
        error = w.abs(wanted - now)
        small = w.minimum(error, 0.0 * error + 1.0)
        return w.mean(0.5 * w.square(small) + (error - small))

    sizes = [16, 64, 64, 6]
    data = {"x": _normal(64, 16), "next": _normal(64, 16), "reward": _normal(64)}
    data |= {"taken": np.eye(6, dtype=np.float32)[_ids(6, 64)]}
    data |= {"lives": (_normal(64) > -1).astype(np.float32), **_dense(sizes)}
    text = "DQN with a target network, 16-64-64-6, batch 64, Adam"
    return Program(text, _dense(sizes), data, loss, "adam")


def _triplets() -> Program:
    rows = 64

    def loss(w: Any, p: Any, d: Any) -> Any:
        x = w.matmul(w.relu(w.matmul(d["x"], p["a"])), p["b"])
        x = x * w.rsqrt(w.sum(w.square(x), 1, True) + 1e-6)
        far = w.relu(2.0 - 2.0 * w.matmul(x, x, True))
        hardest = w.max(far * d["same"], 1)
        nearest = -w.max(-(far + 10.0 * d["same"]), 1)
        return w.mean(w.softplus(hardest - nearest))

    kinds = _ids(8, rows)
    data = {"x": _normal(rows, 96), "same": (kinds[:, None] == kinds).astype(np.float32)}
    p = {"a": _weights(96, 128), "b": _weights(128, 32)}
    return Program("batch-hard triplet loss, batch 64, SGD", p, data, loss, "sgd")


def _em() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        x = w.expand(p["x"], 1)
        each = -0.5 * w.sum(w.square(x - p["means"]) * w.exp(-p["spreads"]) + p["spreads"], 2)
        each = each + p["shares"]
        whole = w.logsumexp(each, 1)
        belongs = w.exp(each - w.expand(whole, 1))
        count = w.sum(belongs, 0)
        means = w.matmul(w.transpose(belongs, (1, 0)), p["x"]) / w.expand(count, 1)
        squares = w.matmul(w.transpose(belongs, (1, 0)), w.square(p["x"])) / w.expand(count, 1)
        return w.mean(whole), means, w.log(squares - w.square(means)), w.log(count / 2000.0)

    p = {"x": _normal(2000, 4), "means": _normal(8, 4), "spreads": _zeros(8, 4)}
    p |= {"shares": _zeros(8)}
    return Program("EM step of 8 Gaussians, 2,000 × 4", p, {}, compute, None, False)


def _diffusion() -> Program:
    turns = 40

    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(_: Any, x: Any) -> Any:
            up, down = w.concat([x[1:], x[-1:]], 0), w.concat([x[:1], x[:-1]], 0)
            left = w.concat([x[:, 1:], x[:, -1:]], 1)
            right = w.concat([x[:, :1], x[:, :-1]], 1)
            return x + p["rate"] * (up + down + left + right - 4.0 * x)

        return w.mean(w.square(w.loop(turns, turn, d["x"]) - d["y"]))

    p = {"rate": np.full((48, 48), 0.1, np.float32)}
    data = {"x": np.abs(_normal(48, 48)), "y": np.abs(_normal(48, 48))}
    text = "gradient of heat diffusion by conductivity, 48 × 48, 40 steps"
    return Program(text, p, data, loss, "", False, is_loop=True)


def _mandelbrot() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(_: Any, state: Any) -> Any:
            x, y, count = state
            inside = x * x + y * y < 4.0
            new_x = w.where(inside, x * x - y * y + p["x"], x)
            new_y = w.where(inside, 2.0 * x * y + p["y"], y)
            return new_x, new_y, count + w.float(inside)

        return w.loops(30, turn, [d["zero"], d["zero"], d["zero"]])[2]

    x, y = np.meshgrid(np.linspace(-2, 1, 96), np.linspace(-1, 1, 64))
    p = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    text = "Mandelbrot set, 96 × 64, 30 iterations"
    return Program(text, p, {"zero": _zeros(64, 96)}, compute, None, False, is_loop=True)


def _options() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        drift = (p["rate"] - 0.5 * w.square(p["spread"])) * 0.02
        steps = drift + p["spread"] * 0.1414 * d["noise"]
        prices = 100.0 * w.exp(w.cumsum(steps, 1))
        gain = w.relu(w.mean(prices, 1) - p["strike"])
        return w.mean(gain) * w.sum(w.exp(-p["rate"]))

    p = {"rate": np.array([0.03], np.float32), "spread": np.array([0.2], np.float32)}
    p |= {"strike": np.array([100.0], np.float32)}
    text = "Asian option and its Greeks, 1,000 paths of 50 steps"
    return Program(text, p, {"noise": _normal(1000, 50)}, loss, "", False)


def _text_cnn() -> Program:
    rows, length, width, filters = 32, 40, 48, 32

    def loss(w: Any, p: Any, d: Any) -> Any:
        x = w.reshape(w.rows(p["table"], d["ids"]), (rows, length, width))
        found = []
        for size in (3, 4, 5):
            places = length - size + 1
            pieces = w.concat([x[:, n : n + places] for n in range(size)], 2)
            made = w.matmul(w.reshape(pieces, (-1, size * width)), p[f"w{size}"])
            found.append(w.max(w.relu(w.reshape(made, (rows, places, filters))), 1))
        return w.binary_entropy(w.reshape(w.matmul(w.concat(found, 1), p["out"]), (-1,)), d["y"])

    p = {"table": _weights(2000, width)} | {
        f"w{size}": _weights(size * width, filters) for size in (3, 4, 5)
    }
    p["out"] = _weights(3 * filters, 1)
    data = {"ids": _ids(2000, rows, length), "y": _ids(2, rows).astype(np.float32)}
    text = "text CNN, filter widths 3 to 5, 32 × 40 words, Adagrad"
    return Program(text, p, data, loss, "adagrad", is_sparse=True)


def _style() -> Program:
    size, channels = 48, 16

    def loss(w: Any, p: Any, d: Any) -> Any:
        x, total = p["image"], 0.0
        for n in range(2):
            x = w.relu(w.convolution(x, d[f"f{n}"]))
            flat = w.reshape(x, (-1, channels))
            gram = w.matmul(w.transpose(flat, (1, 0)), flat) / float(size * size)
            total = total + w.mean(w.square(gram - d[f"g{n}"]))
        across = w.mean(w.abs(p["image"][:, 1:] - p["image"][:, :-1]))
        return total + 0.1 * across

    data = {"f0": _weights(3, 3, 3, channels), "f1": _weights(3, 3, channels, channels)}
    data |= {f"g{n}": np.abs(_normal(channels, channels)) for n in range(2)}
    p = {"image": _normal(1, size, size, 3)}
    return Program(
        "style loss of a 48 × 48 image, Gram matrices, Adam", p, data, loss, "adam", False
    )


def _conv_lstm() -> Program:
    rows, turns, size, units = 4, 8, 12, 8

    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            h, c = state
            gates = w.convolution(w.concat([given[0], h], 3), p["gates"])
            i, f, o, g = w.split(gates, 4, 3)
            c = w.sigmoid(f + 1.0) * c + w.sigmoid(i) * w.tanh(g)
            return w.sigmoid(o) * w.tanh(c), c

        start = w.zeros(rows, size, size, units)
        h, _ = w.fold(turn, [start, start], [d["x"]], turns)
        return w.mean(w.square(w.convolution(h, p["out"]) - d["y"]))

    p = {"gates": _weights(3, 3, 1 + units, 4 * units) / 3, "out": _weights(1, 1, units, 1)}
    data = {"x": _normal(turns, rows, size, size, 1), "y": _normal(rows, size, size, 1)}
    text = "ConvLSTM, 8 frames of 12 × 12, batch 4, Adam"
    return Program(text, p, data, loss, "adam", False, is_loop=True)


def _norm_lstm() -> Program:
    rows, turns, units = 32, 20, 64

    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            h, c = state
            both = w.matmul(w.concat([given[0], h], 1), p["gates"])
            i, f, o, g = w.split(w.layer_norm(both, p["scale"], p["offset"]), 4, 1)
            c = w.sigmoid(f + 1.0) * c + w.sigmoid(i) * w.tanh(g)
            return w.sigmoid(o) * w.tanh(w.layer_norm(c, p["c_scale"], p["c_offset"])), c

        start = w.zeros(rows, units)
        h, _ = w.fold(turn, [start, start], [d["x"]], turns)
        return w.entropy(w.matmul(h, p["out"]), d["y"])

    p = {"gates": _weights(16 + units, 4 * units), "out": _weights(units, 8)}
    p |= {"scale": _ones(4 * units), "offset": _zeros(4 * units)}
    p |= {"c_scale": _ones(units), "c_offset": _zeros(units)}
    data = {"x": _normal(turns, rows, 16), "y": _ids(8, rows)}
    text = "LSTM of 64 units with layer norm, 20 steps, batch 32, SGD"
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


def _memory() -> Program:
    rows, turns, slots, size = 8, 20, 32, 16

    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            memory, h = state
            h = w.tanh(w.matmul(w.concat([given[0], h], 1), p["in"]))
            key, gone, new = w.split(w.matmul(h, p["heads"]), 3, 1)
            length = w.rsqrt(w.sum(w.square(memory), 2) + 1e-6)
            shares = w.softmax(w.sum(memory * w.expand(key, 1), 2) * length)
            shares = w.expand(shares, 2)
            memory = memory * (1.0 - shares * w.expand(w.sigmoid(gone), 1))
            memory = memory + shares * w.expand(w.tanh(new), 1)
            return memory, w.sum(shares * memory, 1)

        start = w.zeros(rows, slots, size) + p["first"]
        _, h = w.fold(turn, [start, w.zeros(rows, size)], [d["x"]], turns)
        return w.mean(w.square(h - d["y"]))

    p = {"in": _weights(8 + size, 32), "heads": _weights(32, 3 * size)}
    p |= {"first": _normal(slots, size)}
    data = {"x": _normal(turns, rows, 8), "y": _normal(rows, size)}
    text = "external memory of 32 × 16, 20 reads and writes, batch 8, Adam"
    return Program(text, p, data, loss, "adam", False, is_loop=True)


def _neighbours() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        points = w.sum(w.square(p["points"]), 1)
        far = points - 2.0 * w.matmul(d["x"], p["points"], True)
        return w.top_k(-far, 8)[1]

    p = {"points": _normal(2000, 24)}
    return Program(
        "8 nearest neighbours of 100 queries among 2,000 × 24",
        p,
        {"x": _normal(100, 24)},
        compute,
        None,
    )


def _cross() -> Program:
    layers, width = 4, 64

    def loss(w: Any, p: Any, d: Any) -> Any:
        x = d["x"]
        for n in range(layers):
            x = d["x"] * w.matmul(x, p[f"w{n}"]) + p[f"b{n}"] + x
        h = w.relu(w.matmul(d["x"], p["deep"]))
        return w.binary_entropy(w.reshape(w.matmul(w.concat([x, h], 1), p["out"]), (-1,)), d["y"])

    p = {f"w{n}": 0.1 * _weights(width, 1) for n in range(layers)}
    p |= {f"b{n}": _zeros(width) for n in range(layers)}
    p |= {"deep": _weights(width, width), "out": _weights(2 * width, 1)}
    data = {"x": _normal(512, width), "y": _ids(2, 512).astype(np.float32)}
    return Program("deep & cross network, 4 layers of 64, batch 512, Adam", p, data, loss, "adam")


def _experts() -> Program:
    experts, rows = 4, 256

    def loss(w: Any, p: Any, d: Any) -> Any:
        shares = w.softmax(w.matmul(d["x"], p["gate"]))
        parts = w.split(shares, experts, 1)
        h = 0.0
        for n, share in enumerate(parts):
            h = h + share * w.matmul(w.relu(w.matmul(d["x"], p[f"a{n}"])), p[f"b{n}"])
        balance = w.sum(w.square(w.mean(shares, 0)))
        return w.entropy(h, d["y"]) + 0.01 * balance

    p = {"gate": _weights(32, experts)} | {f"a{n}": _weights(32, 64) for n in range(experts)}
    p |= {f"b{n}": _weights(64, 10) for n in range(experts)}
    data = {"x": _normal(rows, 32), "y": _ids(10, rows)}
    return Program("mixture of 4 experts, batch 256, Momentum", p, data, loss, "momentum")


def _ranking() -> Program:
    queries, items = 32, 20

    def loss(w: Any, p: Any, d: Any) -> Any:
        flat = w.reshape(d["x"], (queries * items, 24))
        scores = w.matmul(w.tanh(w.matmul(flat, p["a"]) + p["a_bias"]), p["b"])
        scores = w.reshape(scores, (queries, items))
        apart = w.expand(scores, 2) - w.expand(scores, 1)
        better = w.float(w.expand(d["grades"], 2) > w.expand(d["grades"], 1))
        return w.sum(better * w.softplus(-apart)) / w.sum(better)

    p = {"a": _weights(24, 32), "a_bias": _zeros(32), "b": _weights(32, 1)}
    data = {"x": _normal(queries, items, 24), "grades": np.abs(_normal(queries, items))}
    return Program("pairwise ranking loss, 32 queries of 20 documents, Adam", p, data, loss, "adam")


def _survival() -> Program:
    rows = 256

    def loss(w: Any, p: Any, d: Any) -> Any:
        risk = w.matmul(w.tanh(w.matmul(d["x"], p["a"]) + p["a_bias"]), p["b"])
        risk = w.reshape(risk, (rows,))
        at_risk = w.log(w.cumsum(w.exp(risk), 0))
        return -w.sum(d["died"] * (risk - at_risk)) / w.sum(d["died"])

    p = {"a": _weights(20, 32), "a_bias": _zeros(32), "b": _weights(32, 1)}
    data = {"x": _normal(rows, 20), "died": (_normal(rows) > 0).astype(np.float32)}
    return Program("Cox survival model, batch 256, Adam", p, data, loss, "adam")


def _lista() -> Program:
    rows, size, atoms, turns = 64, 32, 64, 10

    def loss(w: Any, p: Any, d: Any) -> Any:
        seen, code = w.matmul(d["x"], p["in"]), w.zeros(rows, atoms)
        for _ in range(turns):
            code = seen + w.matmul(code, p["again"])
            code = w.relu(code - p["least"]) - w.relu(-code - p["least"])
        error = w.square(w.matmul(code, p["out"]) - d["x"])
        return w.mean(error) + 0.01 * w.mean(w.abs(code))

    p = {"in": 0.3 * _weights(size, atoms), "again": 0.3 * _weights(atoms, atoms)}
    p |= {"least": np.full(atoms, 0.1, np.float32), "out": _weights(atoms, size)}
    text = "LISTA sparse coding, 10 iterations, batch 64, SGD"
    return Program(text, p, {"x": _normal(rows, size)}, loss, "sgd")


METHODS: Mapping[str, Program] = {
    "capsules": _capsules(),
    "flow": _flow(),
    "dqn": _dqn(),
    "triplets": _triplets(),
    "em": _em(),
    "diffusion": _diffusion(),
    "mandelbrot": _mandelbrot(),
    "options": _options(),
    "text_cnn": _text_cnn(),
    "style": _style(),
    "conv_lstm": _conv_lstm(),
    "norm_lstm": _norm_lstm(),
    "memory": _memory(),
    "neighbours": _neighbours(),
    "cross": _cross(),
    "experts": _experts(),
    "ranking": _ranking(),
    "survival": _survival(),
    "lista": _lista(),
}
