"""The cases of `gpu.py` in PyTorch: a function that queues one step, data on the card.

There are three modes: eager, `torch.compile`, and compiled and recorded in a CUDA graph, which is
PyTorch's best.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networks
import networks_torch
from gpu_cases import CHAIN_OPS, LAYERS, RATE, Case

Step = Callable[[], Any]


EAGER, COMPILED, RECORDED = "torch", "torch.compile", "recorded"


def step(torch: Any, case: Case, way: str) -> Step:
    """Returns a step of a case.

    Args:
        torch: The module.
        case: The case.
        way: `EAGER`, `COMPILED` or `RECORDED`.
    """
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True  # as in sparkflow and TensorFlow
    torch.backends.cudnn.allow_tf32 = True
    wrap = (lambda function: function) if way == EAGER else torch.compile
    if case.name in networks.NETWORKS:
        made = _network(torch, wrap, case.name, sparse=way == EAGER)
    else:
        made = _STEPS[case.name.split(",")[0].split()[-1]](torch, wrap, *case.sizes)
    return _recorded(torch, made) if way == RECORDED else made


def _recorded(torch: Any, run: Step) -> Step:
    """Returns the step as a CUDA graph, see "whole-network capture" in PyTorch's notes on CUDA."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(5):  # compiles, and creates the state of optimizers
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    replay: Step = graph.replay
    return replay


def _chain(torch: Any, wrap: Any, rows: int, columns: int) -> Step:
    x = torch.randn(rows, columns, device="cuda")

    def chain(value: Any) -> Any:
        for number in range(CHAIN_OPS // 3):
            value = torch.tanh(value * (1.0 + 0.01 * number)) + 0.1
        return value

    run = wrap(chain)
    return lambda: run(x)


def _softmax(torch: Any, wrap: Any, rows: int, columns: int) -> Step:
    x = torch.randn(rows, columns, device="cuda")
    run = wrap(lambda value: torch.softmax(value, 1))
    return lambda: run(x)


def _adam(torch: Any, wrap: Any, count: int) -> Step:
    value = torch.nn.Parameter(torch.randn(count, device="cuda"))
    value.grad = torch.randn(count, device="cuda")
    run: Step = wrap(_adam_of(torch, [value]).step)
    return run


def _adam_of(torch: Any, parameters: Any) -> Any:
    """The fastest possible: one kernel, with the number of steps on the card."""
    return torch.optim.Adam(parameters, RATE, fused=True, capturable=True)


def _mlp(torch: Any, wrap: Any, batch: int) -> Step:
    layers: list[Any] = []
    for m, n in pairwise(LAYERS):
        layers += [torch.nn.Linear(m, n), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).cuda()
    x = torch.randn(batch, LAYERS[0], device="cuda")
    return _training(torch, wrap, model, x, _adam_of(torch, model.parameters()))


def _cnn(torch: Any, wrap: Any, batch: int) -> Step:
    nn = torch.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(7 * 7 * 64, 1024), nn.ReLU(), nn.Linear(1024, 10)),
    ).cuda()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(batch, 1, 28, 28, device="cuda")
    return _training(torch, wrap, model, x, torch.optim.SGD(model.parameters(), RATE))


def _network(torch: Any, wrap: Any, name: str, sparse: bool) -> Step:
    loss, parameters, data = networks_torch.network(torch, name, "cuda", sparse)
    optimizer = torch.optim.SGD(list(parameters.values()), networks.RATE)
    run = wrap(loss)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        run(parameters, data).backward()
        optimizer.step()

    return train


def _training(torch: Any, wrap: Any, model: Any, x: Any, optimizer: Any) -> Step:
    labels = torch.randint(0, 10, (x.shape[0],), device="cuda")

    def loss(value: Any, wanted: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(value), wanted)

    run = wrap(loss)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        run(x, labels).backward()
        optimizer.step()

    return train


_STEPS = {
    "elementwise": _chain,
    "softmax": _softmax,
    "Adam": _adam,
    "MLP": _mlp,
    "CNN": _cnn,
}
