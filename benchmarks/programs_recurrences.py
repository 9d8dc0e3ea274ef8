"""Further kinds of programs whose work is a loop; each written once, as in `programs_cases`.

They were written after those of `programs_loops` had become fast (2026-11-28): nothing was tuned
with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from programs_cases import Program, _normal, _weights, _zeros


def _transport() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        kernel = w.exp(-3.0 * w.square(p["x"] - w.transpose(p["y"], (1, 0))))

        def turn(_: Any, state: Any) -> Any:
            column = d["columns"] / w.matmul(w.transpose(kernel, (1, 0)), state[0])
            return d["rows"] / w.matmul(kernel, column), column

        row, column = w.loops(50, turn, [d["rows"], d["columns"]])
        return row * kernel * w.transpose(column, (1, 0))

    p = {"x": _normal(32, 1), "y": _normal(24, 1)}
    data = {"rows": np.full((32, 1), 1 / 32, np.float32)}
    data["columns"] = np.full((24, 1), 1 / 24, np.float32)
    text = "Sinkhorn's iterations, 32 × 24, 50 turns"
    return Program(text, p, data, compute, None, False, is_loop=True)


def _power() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(_: Any, x: Any) -> Any:
            image = w.matmul(p["a"], x)
            return image * w.rsqrt(w.sum(image * image))

        x = w.loop(60, turn, d["x"])
        return w.sum(x * w.matmul(p["a"], x))

    a = _normal(48, 48)
    text = "the largest eigenvalue of 48 × 48 by 60 powers"
    return Program(text, {"a": a @ a.T / 48}, {"x": _normal(48, 1)}, compute, None, False, True)


def _labels() -> Program:
    rows, turns, states = 8, 40, 21

    def loss(w: Any, p: Any, d: Any) -> Any:
        flat = w.matmul(w.reshape(d["x"], (turns * rows, 16)), p["out"])
        x = w.reshape(flat, (turns, rows, states))

        def turn(state: Any, given: Any) -> Any:
            here = state[0]
            one = w.concat([d["never"], here[:, :-1]], 1)
            two = w.concat([d["never"], d["never"], here[:, :-2]], 1)
            three = w.concat([w.expand(each, 2) for each in (here, one, two)], 2)
            return (w.logsumexp(three, 2) + given[0],)

        (end,) = w.fold(turn, [x[0] + d["start"]], [x[1:]], turns - 1)
        return w.mean(-w.logsumexp(end[:, -2:], 1))

    start = np.full((rows, states), -30, np.float32)
    start[:, :2] = 0
    data = {"x": _normal(turns, rows, 16), "start": start}
    data["never"] = np.full((rows, 1), -30, np.float32)
    text = "CTC's forward recursion of 21 states, 40 steps, batch 8, SGD"
    p = {"out": _weights(16, states)}
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


def _averages() -> Program:
    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            mean, square, share = state
            mean = 0.9 * mean + 0.1 * given[0]
            square = 0.99 * square + 0.01 * w.square(given[0])
            share = share * d["decay"]
            found = mean / (1.0 - share[0]) * w.rsqrt(square / (1.0 - share[1]) + 1e-6)
            return (mean, square, share), found + p["offset"]

        start = [w.zeros(48), w.zeros(48), w.ones(2)]
        return w.scan(turn, start, [d["x"]], 100)

    data = {"x": _normal(100, 48), "decay": np.array([0.9, 0.99], np.float32)}
    text = "100 moving averages with their biases corrected, batch 48"
    return Program(text, {"offset": _normal(48)}, data, compute, None, False, is_loop=True)


def _spikes() -> Program:
    rows, turns, units = 4, 60, 40

    def compute(w: Any, p: Any, d: Any) -> Any:
        def turn(state: Any, given: Any) -> Any:
            charge, fired = state
            charge = 0.9 * charge + w.matmul(fired, p["w"]) + given[0]
            fired = w.float(charge > 1.0)
            return (charge * (1.0 - fired), fired), fired

        return w.scan(turn, [w.zeros(rows, units)] * 2, [d["x"]], turns)

    # Multiples of a power of two, and few iterations until a unit fires: rounding does not matter.
    weights = np.round(64 * _weights(units, units)) / np.float32(64)
    data = {"x": np.round(8 * _normal(turns, rows, units)) / np.float32(8)}
    text = "a spiking network of 40 units, 60 steps, batch 4"
    return Program(text, {"w": weights}, data, compute, None, False, is_loop=True)


def _hunters() -> Program:
    def loss(w: Any, p: Any, d: Any) -> Any:
        def slope(x: Any, y: Any) -> Any:
            return x * (p["rates"][0] - p["rates"][1] * y), y * (p["rates"][2] * x - p["rates"][3])

        def turn(_: Any, state: Any) -> Any:
            x, y = state
            x1, y1 = slope(x, y)
            x2, y2 = slope(x + 0.025 * x1, y + 0.025 * y1)
            x3, y3 = slope(x + 0.025 * x2, y + 0.025 * y2)
            x4, y4 = slope(x + 0.05 * x3, y + 0.05 * y3)
            x = x + (0.05 / 6) * (x1 + 2.0 * x2 + 2.0 * x3 + x4)
            return x, y + (0.05 / 6) * (y1 + 2.0 * y2 + 2.0 * y3 + y4)

        x, y = w.loops(40, turn, [d["x"], d["y"]])
        return w.mean(w.square(x - 1.0)) + w.mean(w.square(y - 1.0))

    p = {"rates": np.array([1.0, 0.9, 0.8, 0.9], np.float32) + _zeros(4)}
    data = {name: 1 + np.abs(_normal(16)) / 4 for name in ("x", "y")}
    text = "hunters and prey by Runge-Kutta, 40 steps, batch 16, SGD"
    return Program(text, p, data, loss, "sgd", False, is_loop=True)


RECURRENCES: Mapping[str, Program] = {
    "transport": _transport(),
    "power": _power(),
    "labels": _labels(),
    "averages": _averages(),
    "spikes": _spikes(),
    "hunters": _hunters(),
}
