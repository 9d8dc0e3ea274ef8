"""The cases of `loops.py` as one writes them for PyTorch: eager, or with `torch.compile`.

The LSTM is `torch.nn.LSTM` in eager mode, and hand-written if compiled, since the compiler unrolls
its steps. Loops of 1,000 iterations are not compiled, which would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from competitor import Case, load_torch, serve
from loops_competitor import (
    CELL_TURNS,
    CELL_W,
    CELL_X,
    INPUTS,
    KERNEL,
    SEQUENCES,
    TURNS,
    UNITS,
    X,
    case,
)


def run(threads: int, compiled: bool) -> None:
    """Serves the cases."""
    torch = load_torch(threads)
    if torch is not None:
        serve(Cases(torch, compiled).make, f"PyTorch {torch.__version__}")


class Cases:
    """Returns the cases of one competitor.

    Args:
        torch: The library.
        compiled: Whether `torch.compile` is used.
    """

    def __init__(self, torch: Any, compiled: bool) -> None:
        self._torch = torch
        self._compiled = compiled

    def make(self, name: str) -> Case | None:
        """Returns the case with this name."""
        makers = {
            "cell": lambda: self._plain(self._cells, CELL_X, CELL_W),
            "cell_gradient": lambda: self._gradient(self._cells, 1, CELL_X, CELL_W),
            "lstm": lambda: self._train(last_only=True),
            "dynamic_rnn": lambda: self._train(last_only=False),
        }
        if not self._compiled:
            makers["while"] = lambda: self._plain(self._turns, X)
            makers["while_gradient"] = lambda: self._gradient(self._turns, 0, X)
        return makers[name]() if name in makers else None

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        wrapped: Callable[..., Any] = self._torch.compile(function) if self._compiled else function
        return wrapped

    def _tensor(self, value: Any) -> Any:
        return self._torch.from_numpy(np.array(value))

    @staticmethod
    def _turns(x: Any) -> Any:
        y = x
        for _ in range(TURNS):
            y = y * 0.999 + x
        return y

    def _cells(self, x: Any, w: Any) -> Any:
        h = self._torch.zeros_like(x)
        for _ in range(CELL_TURNS):
            h = self._torch.tanh(h @ w + x)
        return h

    def _plain(self, function: Callable[..., Any], *values: Any) -> Case:
        given, wrapped = [self._tensor(value) for value in values], self._wrapped(function)

        def call() -> Any:
            with self._torch.no_grad():
                return wrapped(*given)

        return case(call)

    def _gradient(self, function: Callable[..., Any], of: int, *values: Any) -> Case:
        given = [self._tensor(value).requires_grad_() for value in values]
        summed = self._wrapped(lambda *tensors: function(*tensors).sum())
        return case(lambda: self._torch.autograd.grad(summed(*given), given)[of])

    def _train(self, last_only: bool) -> Case:
        torch = self._torch
        sequences = self._tensor(SEQUENCES)
        if self._compiled:
            parameters = [self._tensor(KERNEL), torch.zeros(4 * UNITS)]
            outputs = self._by_hand
        else:
            parameters, outputs = self._library()
        for each in parameters:
            each.requires_grad_()

        def loss(*parameters: Any) -> Any:
            found = outputs(sequences, *parameters)
            return torch.mean(torch.square((found[-1] if last_only else found) - 0.5))

        wrapped = self._wrapped(loss)

        def call() -> Any:
            value = wrapped(*parameters)
            grads = torch.autograd.grad(value, parameters)
            with torch.no_grad():
                torch._foreach_add_(parameters, grads, alpha=-0.1)
            return value.detach()

        return case(call)

    def _by_hand(self, sequences: Any, kernel: Any, bias: Any) -> Any:
        torch = self._torch
        c = h = torch.zeros(sequences.shape[1], UNITS)
        outputs = []
        for x in sequences:
            i, j, f, o = torch.chunk(torch.cat([x, h], 1) @ kernel + bias, 4, 1)
            c = c * torch.sigmoid(f + 1.0) + torch.sigmoid(i) * torch.tanh(j)
            h = torch.tanh(c) * torch.sigmoid(o)
            outputs.append(h)
        return torch.stack(outputs)

    def _library(self) -> tuple[list[Any], Callable[..., Any]]:
        """Returns `torch.nn.LSTM` with the same weights: gates i, f, g, o, and two biases."""
        torch = self._torch
        i, j, f, o = np.split(KERNEL, 4, 1)
        kernel = np.concatenate([i, f, j, o], 1)
        network = torch.nn.LSTM(INPUTS, UNITS)
        forget = np.zeros(4 * UNITS, np.float32)
        forget[UNITS : 2 * UNITS] = 1
        with torch.no_grad():
            network.weight_ih_l0.copy_(self._tensor(kernel[:INPUTS].T))
            network.weight_hh_l0.copy_(self._tensor(kernel[INPUTS:].T))
            network.bias_ih_l0.copy_(self._tensor(forget))
            network.bias_hh_l0.zero_()
        network.bias_hh_l0.requires_grad_(False)  # one bias is trained, as in the others
        trained = [network.weight_ih_l0, network.weight_hh_l0, network.bias_ih_l0]
        return trained, lambda sequences, *_: network(sequences)[0]
