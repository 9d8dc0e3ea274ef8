"""Programs whose work is a loop: filters, solvers, decoders; written once as in `programs_cases`.

They are textbook programs of statistics and sequence models that had not been tried when they were
written (2026-11-28).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from programs_cases import Program, _gru, _gru_values, _ids, _normal, _weights, _zeros

_ROWS, _TURNS, _TAGS = 16, 30, 12


def _field() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        flat = w.matmul(w.reshape(d["x"], (_TURNS * _ROWS, 20)), p["out"])
        x = w.reshape(flat, (_TURNS, _ROWS, _TAGS))

        def turn(state: Any, given: Any) -> Any:
            return (w.logsumexp(w.expand(state[0], 2) + p["trans"], 1) + given[0],)

        (alpha,) = w.fold(turn, [x[0]], [x[1:]], _TURNS - 1)
        tags = d["tags"]
        from_tags = w.matmul(w.reshape(tags[:-1], (-1, _TAGS)), p["trans"])
        moves = w.reshape(from_tags, (_TURNS - 1, _ROWS, _TAGS)) * tags[1:]
        path = w.sum(w.sum(x * tags, 2), 0) + w.sum(w.sum(moves, 2), 0)
        return w.mean(w.logsumexp(alpha, 1) - path)

    tags = np.eye(_TAGS, dtype=np.float32)[_ids(_TAGS, _TURNS, _ROWS)]
    p = {"out": _weights(20, _TAGS), "trans": _weights(_TAGS, _TAGS)}
    data = {"x": _normal(_TURNS, _ROWS, 20), "tags": tags}
    text = "linear-chain CRF of 12 tags, 30 steps, batch 16, SGD"
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


def _viterbi() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            scores = w.expand(state[0], 2) + p["trans"]
            return (w.max(scores, 1) + given[0],), w.float(w.argmax(scores, 1))

        return w.scan(turn, [d["x"][0]], [d["x"][1:]], 49)

    data = {"x": _normal(50, _ROWS, _TAGS)}
    text = "Viterbi's algorithm, 12 tags, 50 steps, batch 16"
    p = {"trans": _weights(_TAGS, _TAGS)}
    return Program(text, p, data, compute, None, False, is_loop=True)


def _kalman(text: str, optimizer: str | None) -> Program:
    def filtered(w: Any, p: Any, d: Any) -> Any:
        f, h = p["f"], p["h"]

        def turn(state: Any, given: Any) -> Any:
            x, v = state
            x, v = w.matmul(f, x), w.matmul(w.matmul(f, v), f, True) + d["q"]
            vh = w.matmul(v, h, True)
            gain = w.matmul(vh, w.inverse(w.matmul(h, vh) + d["r"]))
            x = x + w.matmul(gain, given[0] - w.matmul(h, x))
            return (x, v - w.matmul(gain, w.matmul(h, v))), x

        made = w.scan(turn, [w.zeros(4, 1), d["v"]], [d["y"]], 100)
        return made if optimizer is None else w.mean(w.square(made))

    eye = np.eye(4, dtype=np.float32)
    p = {"f": eye + 0.05 * _normal(4, 4), "h": _normal(2, 4)}
    data = {"y": _normal(100, 2, 1), "q": 0.1 * eye, "r": 0.5 * eye[:2, :2], "v": eye}
    return Program(text, p, data, filtered, optimizer, False, is_loop=True)


def _conjugate_gradients() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any) -> Any:
            x, rest, along, size = state
            image = w.matmul(p["a"], along)
            step = size / w.sum(along * image)
            x, rest = x + step * along, rest - step * image
            following = w.sum(rest * rest)
            return x, rest, rest + (following / size) * along, following

        b = d["b"]
        start = [w.zeros(64, 1), b, b, w.sum(b * b)]
        return w.until(lambda state: state[3] > 1e-6, turn, start)[0]

    a = _normal(64, 64)
    p = {"a": a @ a.T / 64 + np.eye(64, dtype=np.float32)}
    text = "conjugate gradients, 64 × 64, until it has converged"
    return Program(text, p, {"b": _normal(64, 1)}, compute, None, False, is_loop=True)


def _equation() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        def slope(x: Any) -> Any:
            return w.matmul(w.tanh(w.matmul(x, p["w0"]) + p["b0"]), p["w1"]) + p["b1"]

        def turn(_: Any, x: Any) -> Any:
            a = slope(x)
            b = slope(x + 0.05 * a)
            c = slope(x + 0.05 * b)
            return x + (0.1 / 6) * (a + 2.0 * b + 2.0 * c + slope(x + 0.1 * c))

        return w.mean(w.square(w.loop(20, turn, d["x"]) - d["y"]))

    p = {"w0": _weights(2, 32), "b0": _zeros(32), "w1": _weights(32, 2), "b1": _zeros(2)}
    data = {"x": _normal(20, 2), "y": _normal(20, 2)}
    text = "neural differential equation, 20 steps of Runge-Kutta, Adam"
    return Program(text, p, data, loss, "adam", False, is_loop=True)


def _beams() -> Program:
    beams, words, units = 4, 50, 32

    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(_: Any, state: Any) -> Any:
            h, word, score = state
            h = _gru(w, p, h, w.gather(p["words"], word))
            chances = w.log(w.softmax(w.matmul(h, p["out"])))
            total = w.reshape(w.reshape(score, (beams, 1)) + chances, (1, beams * words))
            best, place = w.top_k(total, beams)
            place = w.reshape(place, (beams,))
            return w.gather(h, place // words), place % words, best

        return w.loops(20, turn, [d["h"], d["word"], d["score"]])[0]

    p = {"words": _weights(words, units), "out": _weights(units, words)}
    p |= _gru_values(units, units)
    score = np.array([[0.0, *[-1e9] * (beams - 1)]], np.float32)
    data = {"h": _normal(beams, units), "word": np.zeros(beams, np.int32), "score": score}
    text = "beam search, 4 beams, 20 words of 50: GRU of 32, top_k, gather"
    return Program(text, p, data, compute, None, False, is_loop=True)


def _two_sequences() -> Program:
    rows, turns, units, words = 16, 15, 32, 200

    def loss(w: Any, p: Any, d: Any) -> Any:
        encoder, decoder = (
            {name: p[kind + name] for name in ("gates", "gates_bias", "new", "new_bias")}
            for kind in ("in_", "out_")
        )

        def read(state: Any, given: Any) -> Any:
            return (_gru(w, encoder, state[0], w.gather(p["in_words"], given[0])),)

        def write(state: Any, given: Any) -> Any:
            h = _gru(w, decoder, state[0], w.gather(p["out_words"], given[0]))
            return (h,), h

        state = w.fold(read, [w.zeros(rows, units)], [d["x"]], turns)
        made = w.scan(write, state, [d["y"]], turns)
        logits = w.matmul(w.reshape(made, (-1, units)), p["out"])
        return w.entropy(logits, w.reshape(d["next"], (-1,)))

    p = {"in_words": _weights(words, units), "out_words": _weights(words, units)}
    p |= {kind + k: v for kind in ("in_", "out_") for k, v in _gru_values(units, units).items()}
    p |= {"out": _weights(units, words)}
    data = {name: _ids(words, turns, rows) for name in ("x", "y", "next")}
    text = "sequence to sequence, GRUs of 32, look-ups in the turns, Adam"
    return Program(text, p, data, loss, "adam", False, is_loop=True)


def _masked() -> Program:
    rows, turns, units = 16, 30, 32

    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            (h, c), (x, keep) = state, given
            i, j, f, o = w.split(w.matmul(w.concat([x, h], 1), p["w"]) + p["b"], 4, 1)
            new = c * w.sigmoid(f + 1.0) + w.sigmoid(i) * w.tanh(j)
            out = w.tanh(new) * w.sigmoid(o)
            return w.where(keep > 0.5, out, h), w.where(keep > 0.5, new, c)

        start = [w.zeros(rows, units)] * 2
        h, _ = w.fold(turn, start, [d["x"], d["keep"]], turns)
        return w.entropy(w.matmul(h, p["out"]), d["y"])

    lengths = _ids(turns, rows)
    keep = (np.arange(turns)[:, None] < lengths).astype(np.float32)
    data = {"x": _normal(turns, rows, 16), "y": _ids(2, rows)}
    data |= {"keep": np.repeat(keep[:, :, None], units, 2)}
    p = {"w": _weights(16 + units, 4 * units), "b": _zeros(4 * units), "out": _weights(units, 2)}
    text = "LSTM of 32 units over sequences of 0 to 30 steps, batch 16, Adam"
    return Program(text, p, data, loss, "adam", False, is_loop=True)


def _pendulum() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        def turn(_: Any, state: Any) -> Any:
            angle, speed = state[:, :1], state[:, 1:]
            push = w.matmul(state, p["gains"])
            speed = speed + 0.05 * (w.sin(angle) * 9.8 - 0.1 * speed + push)
            return w.concat([angle + 0.05 * speed, speed], 1)

        return w.mean(1.0 - w.cos(w.loop(40, turn, d["state"])[:, :1]))

    text = "a pendulum's controller, 40 steps, batch 32, SGD"
    p, data = {"gains": _normal(2, 1)}, {"state": _normal(32, 2)}
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


def _warping() -> Program:
    rows, size = 8, 30

    def loss(w: Any, p: Any, d: Any) -> Any:
        x = p["x"]

        def turn(state: Any, given: Any) -> Any:
            cost = w.square(x - w.reshape(given[0], (rows, 1)))
            before = w.concat([d["far"], state[0][:, :-1]], 1)
            nearest = w.minimum(state[0], before) + cost
            return (w.minimum(nearest, w.cumsum(cost, 1)),)

        start = w.cumsum(w.square(x - w.reshape(d["y"][0], (rows, 1))), 1)
        (end,) = w.fold(turn, [start], [d["y"][1:]], size - 1)
        return w.mean(end)

    data = {"y": _normal(size, rows), "far": np.full((rows, 1), 1e3, np.float32)}
    text = "the gradient of aligning two series of 30 by a table, batch 8"
    return Program(text, {"x": _normal(rows, size)}, data, loss, "", False, is_loop=True)


def _returns() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        share = 0.99 * w.sigmoid(p["v"])

        def turn(state: Any, given: Any) -> Any:
            total = given[0] + share * state[0]
            return (total,), total

        return w.mean(w.square(w.scan(turn, [w.zeros(64)], [d["r"]], 200)))

    text = "the gradient of 200 discounted returns, batch 64"
    return Program(text, {"v": _normal(64)}, {"r": _normal(200, 64)}, loss, "", False, is_loop=True)


def _nested() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        def inner(_: Any, h: Any) -> Any:
            return w.tanh(w.matmul(h, p["w"]))

        return w.loop(12, lambda _, h: w.loop(10, inner, h) + 0.1 * h, d["h"])

    text = "a loop of 10 turns in one of 12: tanh(h w), (8, 16)"
    p, data = {"w": _weights(16, 16)}, {"h": _normal(8, 16)}
    return Program(text, p, data, compute, None, False, is_loop=True)


LOOPS: Mapping[str, Program] = {
    "field": _field(),
    "viterbi": _viterbi(),
    "kalman": _kalman("Kalman filter of 4 states, 100 steps", None),
    "kalman_gradient": _kalman("its gradient", ""),
    "conjugate": _conjugate_gradients(),
    "equation": _equation(),
    "beams": _beams(),
    "sequences": _two_sequences(),
    "masked": _masked(),
    "pendulum": _pendulum(),
    "warping": _warping(),
    "returns": _returns(),
    "nested": _nested(),
}
