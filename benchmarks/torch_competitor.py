"""One competitor of `executor.py`, as a process: `torch_competitor.py torch|compiled THREADS`.

The cases as one writes them for PyTorch: eager, or with `torch.compile` around the computation of
the loss and around the optimizer's step. Nothing is fed: the data are already tensors.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cnn
import embedding
import executor_competitor
import mlp
import numpy as np
import session_competitor
from competitor import Case, load_torch, serve


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
            "add": self._add,
            "chain": lambda: self._chain(session_competitor.X, session_competitor.Y),
            "chain_large": lambda: self._chain(
                executor_competitor.LARGE_X, executor_competitor.LARGE_Y
            ),
            "mlp": lambda: self._mlp(mlp.SIZES, mlp.BATCH, self._sgd(mlp.LEARNING_RATE)),
            "mlp_large": lambda: self._mlp(mlp.LARGE_SIZES, mlp.LARGE_BATCH, self._adam()),
            "cnn": self._cnn,
            "embedding": self._embedding,
            "while": self._loop,
            "while_gradient": self._loop_gradient,
        }
        return makers[name]() if name in makers else None

    def _tensor(self, value: Any) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(value))

    def _parameters(self, values: Sequence[Any]) -> list[Any]:
        return [self._tensor(value).requires_grad_() for value in values]

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        wrapped: Callable[..., Any] = self._torch.compile(function) if self._compiled else function
        return wrapped

    def _sgd(self, rate: float) -> Callable[[list[Any]], Any]:
        return lambda parameters: self._torch.optim.SGD(parameters, rate)

    def _adam(self) -> Callable[[list[Any]], Any]:
        return lambda parameters: self._torch.optim.Adam(parameters, mlp.ADAM_LEARNING_RATE)

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Case:
        wrapped = self._wrapped(function)
        result = wrapped(*arguments).detach().numpy()
        return Case(lambda: wrapped(*arguments), result if result.ndim == 1 else result[0, :5])

    def _training(
        self,
        parameters: list[Any],
        optimizer: Any,
        loss: Callable[..., Any],
        next_batch: Callable[[], Sequence[Any]],
    ) -> Case:
        computed, update = self._wrapped(loss), self._wrapped(optimizer.step)

        def step() -> float:
            optimizer.zero_grad()
            value = computed(parameters, *next_batch())
            value.backward()
            update()
            return float(value.detach())

        return Case(step, [step() for _ in range(5)])

    def _add(self) -> Case:
        x, y = self._tensor(session_competitor.X), self._tensor(session_competitor.Y)
        return self._called(lambda x, y: x + y, x, y)

    def _chain(self, x: Any, y: Any) -> Case:
        torch = self._torch
        return self._called(
            lambda x, y: session_competitor.chain(torch, x, y), self._tensor(x), self._tensor(y)
        )

    def _mlp(self, sizes: Sequence[int], rows: int, optimizer: Callable[..., Any]) -> Case:
        functional = self._torch.nn.functional
        parameters = self._parameters(mlp.initial_values(sizes))
        batch = [self._tensor(each) for each in mlp.batch(rows=rows)]

        def loss(values: Sequence[Any], x: Any, labels: Any) -> Any:
            for layer in range(len(values) // 2):
                x = x @ values[2 * layer] + values[2 * layer + 1]
                if layer < len(values) // 2 - 1:
                    x = functional.relu(x)
            return functional.cross_entropy(x, labels)

        return self._training(parameters, optimizer(parameters), loss, lambda: batch)

    def _cnn(self) -> Case:
        functional = self._torch.nn.functional
        values = cnn.initial_values()
        for layer in (0, 2):
            values[layer] = values[layer].transpose(3, 2, 0, 1)
        values[4] = values[4].reshape(*cnn.FEATURES, -1).transpose(2, 0, 1, 3).reshape(-1, 1024)
        parameters = self._parameters(values)
        pictures, labels = cnn.batch()
        batch = self._tensor(pictures.transpose(0, 3, 1, 2)), self._tensor(labels)

        def loss(values: Sequence[Any], x: Any, labels: Any) -> Any:
            for layer in (0, 2):
                x = functional.conv2d(x, values[layer], values[layer + 1], padding=2)
                x = functional.max_pool2d(functional.relu(x), 2)
            x = functional.relu(x.flatten(1) @ values[4] + values[5])
            return functional.cross_entropy(x @ values[6] + values[7], labels)

        optimizer = self._sgd(cnn.LEARNING_RATE)(parameters)
        return self._training(parameters, optimizer, loss, lambda: batch)

    def _embedding(self) -> Case | None:
        if self._compiled:
            return None  # its gradients cannot be sparse
        torch = self._torch
        parameters = self._parameters([embedding.table()])
        optimizer = torch.optim.Adagrad(
            parameters,
            embedding.LEARNING_RATE,
            initial_accumulator_value=embedding.INITIAL_ACCUMULATOR,
            eps=0.0,
        )
        sets = itertools.cycle([self._tensor(each) for each in embedding.id_sets()])
        targets = self._tensor(embedding.targets())

        def loss(values: Sequence[Any], ids: Any, wanted: Any) -> Any:
            rows = torch.nn.functional.embedding(ids, values[0], sparse=True)
            return (rows - wanted).square().sum(1).mean()

        return self._training(parameters, optimizer, loss, lambda: (next(sets), targets))

    def _loop(self) -> Case:
        return self._called(_turns, self._tensor(executor_competitor.LOOP_X))

    def _loop_gradient(self) -> Case:
        (x,) = self._parameters([executor_competitor.LOOP_X])
        loop = self._wrapped(_turns)

        def gradient() -> Any:
            return self._torch.autograd.grad(loop(x).sum(), x)[0]

        return Case(gradient, gradient().numpy())


def _turns(x: Any) -> Any:
    y = x
    for _ in range(executor_competitor.LOOP_TURNS):
        y = y * 0.999 + x
    return y


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    torch = load_torch(threads)
    if torch is not None:
        serve(Cases(torch, name == "compiled").make, f"torch {torch.__version__}")


if __name__ == "__main__":
    main()
