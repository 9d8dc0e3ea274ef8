"""A competitor of `parameter_servers.py`: `ps_torch_competitor.py gloo|flat|rpc`, with PyTorch.

gloo: `send` and `recv` for exchanges with a parameter server, DistributedDataParallel for training,
which has no parameter server. flat: many small variables as one buffer, flattened by hand. rpc:
`torch.distributed.rpc`.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import embedding
import mlp
import ps_programs
from competitor import Case, serve, skip
from ps_tasks import Answer, Task, free_ports, together

THREADS = 1
WORKER, OTHER = 0, 1
"""Ranks: this process, and the parameter server's or the second worker's."""
NAMES = ("worker", "ps")

Step = Callable[[], Any]


class Exchange:
    """The state of both ends of an exchange.

    Args:
        torch: The library.
        case: Its name.
        flat: Whether many variables are sent as one.

    Attributes:
        tensors: The parameters, or the worker's buffers for them.
        pulls: Whether a step sends them to the worker.
        pushes: Whether a step sends as much back.
        summed: Whether the worker computes their mean.
    """

    def __init__(self, torch: Any, case: str, flat: bool = False) -> None:
        name, _, rest = case.partition("_")
        self.summed = rest == "sum"
        self.pulls, self.pushes = name != "push", name not in ("read", "pull")
        self._rate = 1.0 if name == "push" else -ps_programs.RATE
        if name == "read":
            self.tensors = [torch.full((1,), 0.5)]
        elif name in ("pull", "push"):
            self.tensors = [torch.from_numpy(ps_programs.sequence(ps_programs.LARGE_FLOATS))]
        else:
            rows, columns = ps_programs.exchange_shape(case)
            values = torch.from_numpy(ps_programs.sequence(rows * columns))
            self.tensors = [values] if flat else list(values.reshape(rows, columns))

    @property
    def checked(self) -> list[float]:
        """Returns the last values."""
        return [float(value) for value in self.tensors[-1][-5:]]

    def result(self) -> Any:
        """Applies the worker's computation to the values."""
        return self.tensors[0].mean() if self.summed else None

    def update(self, gradients: Sequence[Any]) -> None:
        """Applies the pushed values on the parameter server."""
        for tensor, gradient in zip(self.tensors, gradients, strict=True):
            tensor.add_(gradient, alpha=self._rate)


class Gloo:
    """The worker's side of `send` and `recv`, and training with DistributedDataParallel.

    Args:
        torch: The library.
        address: The address of the process group.
        other: The process of the other rank.
        flat: Whether many variables are sent as one.
    """

    def __init__(self, torch: Any, address: str, other: Task, flat: bool) -> None:
        self._torch = torch
        self._other = other
        self._flat = flat
        self._serving = False
        _join(torch, address, WORKER)
        other.ask("ready")

    def make(self, case: str) -> Case | None:
        """Returns the case with this name."""
        if self._serving:
            self._torch.distributed.send(self._torch.zeros(1), OTHER)
            self._serving = False
        if case.endswith("_async") or (self._flat and not case.startswith(("variables", "count"))):
            return None
        return (self._training if ps_programs.uses_all_workers(case) else self._exchange)(case)

    def _exchange(self, case: str) -> Case:
        self._other.ask(("exchange", case))
        self._serving = True
        exchange = Exchange(self._torch, case, self._flat)
        command = self._torch.ones(1)
        send, receive = self._torch.distributed.send, self._torch.distributed.recv

        def call() -> Any:
            send(command, OTHER)
            if exchange.pulls:
                for each in exchange.tensors:
                    receive(each, OTHER)
            if exchange.pushes:
                for each in exchange.tensors:
                    send(each, OTHER)
                receive(command, OTHER)  # once the update is done
            return exchange.result()

        result = [call() for _ in range(ps_programs.CHECKED_STEPS)][-1]
        if exchange.summed:
            return Case(call, [result])
        return Case(call, self._other.ask("checked") if exchange.pushes else exchange.checked)

    def _training(self, case: str) -> Case:
        self._other.begin(("train", case))
        step = _distributed_step(self._torch, case, WORKER)
        self._other.finish()
        losses: list[float] = []
        count, steps = ps_programs.CHECKED_STEPS, ps_programs.steps_per_round(case)
        together(
            [self._other], ("steps", count), lambda: losses.extend(step() for _ in range(count))
        )

        def call() -> None:
            together([self._other], ("steps", steps), lambda: [step() for _ in range(steps)])

        return Case(call, losses, share=1 / steps)


class Rpc:
    """The worker's side of `torch.distributed.rpc`; there is no training.

    Args:
        torch: The library.
        address: The address at which the processes connect.
        other: The parameter server's process.
    """

    def __init__(self, torch: Any, address: str, other: Task) -> None:
        self._torch = torch
        self._other = other
        _join_rpc(torch, address, WORKER)
        other.ask("ready")

    def make(self, case: str) -> Case | None:
        """Returns the case with this name."""
        if ps_programs.uses_all_workers(case):
            return None
        self._other.ask(("exchange", case))
        exchange = Exchange(self._torch, case)
        call_there = self._torch.distributed.rpc.rpc_sync

        def call() -> Any:
            if exchange.pulls:
                exchange.tensors = call_there(NAMES[OTHER], pulled)
            if exchange.pushes:
                call_there(NAMES[OTHER], push, (exchange.tensors,))
            return exchange.result()

        result = [call() for _ in range(ps_programs.CHECKED_STEPS)][-1]
        if exchange.summed:
            return Case(call, [result])
        return Case(call, self._other.ask("checked") if exchange.pushes else exchange.checked)


_served: list[Exchange] = []  # of the parameter server, for the two functions that others call


def pulled() -> list[Any]:
    """Called by rpc: the parameters."""
    return _served[-1].tensors


def push(gradients: list[Any]) -> None:
    """Called by rpc: the update."""
    _served[-1].update(gradients)


def _start_other(address: str, way: str) -> Answer:
    """The other rank: a parameter server of one thread, or the second worker."""
    import torch  # type: ignore[import-not-found,unused-ignore]  # optional

    torch.set_num_threads(THREADS)
    (_join_rpc if way == "rpc" else _join)(torch, address, OTHER)
    steps: list[Step] = []

    def answer(request: Any) -> Any:
        match request:
            case ("exchange", name):
                _served[:] = [Exchange(torch, name, way == "flat")]
                if way != "rpc":
                    threading.Thread(target=_answer_worker, args=(torch,), daemon=True).start()
            case "checked":
                return _served[-1].checked
            case ("train", name):
                _served.clear()
                steps[:] = [_distributed_step(torch, name, OTHER)]
            case ("steps", count):
                for _ in range(count):
                    steps[-1]()
        return None

    return answer


def _answer_worker(torch: Any) -> None:
    """Gloo's parameter server: one iteration per command, until that is 0."""
    exchange = _served[-1]
    buffers = [torch.empty_like(each) for each in exchange.tensors]
    command = torch.ones(1)
    while True:
        torch.distributed.recv(command, WORKER)
        if not command[0]:
            return
        if exchange.pulls:
            for each in exchange.tensors:
                torch.distributed.send(each, WORKER)
        if exchange.pushes:
            for each in buffers:
                torch.distributed.recv(each, WORKER)
            exchange.update(buffers)
            torch.distributed.send(command, WORKER)


def _join(torch: Any, address: str, rank: int) -> None:
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)


def _join_rpc(torch: Any, address: str, rank: int) -> None:
    rpc = torch.distributed.rpc
    options = rpc.TensorPipeRpcBackendOptions(init_method=address)
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=2, rpc_backend_options=options)


def _distributed_step(torch: Any, case: str, worker: int) -> Step:
    """Runs a training step with DistributedDataParallel and returns the loss before the update."""
    network = case.rpartition("_")[0]
    if network == "embedding":
        module, optimizer, next_batch = _embedding(torch, worker)
    else:
        large = network == "mlp_large"
        sizes = mlp.LARGE_SIZES if large else mlp.SIZES
        module = _dense(torch, sizes)
        batch = _tensors(torch, mlp.batch(worker, mlp.LARGE_BATCH if large else mlp.BATCH))
        optimizer = (
            torch.optim.Adam(module.parameters(), mlp.ADAM_LEARNING_RATE)
            if large
            else torch.optim.SGD(module.parameters(), mlp.LEARNING_RATE)
        )

        def next_batch() -> Sequence[Any]:
            return batch

    replica = torch.nn.parallel.DistributedDataParallel(module)

    def step() -> float:
        optimizer.zero_grad()
        loss = replica(*next_batch())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _dense(torch: Any, sizes: Sequence[int]) -> Any:
    functional = torch.nn.functional
    module = torch.nn.Module()
    module.values = torch.nn.ParameterList(_tensors(torch, mlp.initial_values(sizes)))

    def forward(x: Any, labels: Any) -> Any:
        values = list(module.values)
        for layer in range(len(values) // 2):
            x = functional.linear(x, values[2 * layer].t(), values[2 * layer + 1])
            if layer < len(values) // 2 - 1:
                x = functional.relu(x)
        return functional.cross_entropy(x, labels)

    module.forward = forward
    return module


def _embedding(torch: Any, worker: int) -> tuple[Any, Any, Callable[[], Sequence[Any]]]:
    module = torch.nn.Module()
    table = torch.from_numpy(ps_programs.table())
    module.rows = torch.nn.Embedding.from_pretrained(table, freeze=False, sparse=True)
    module.forward = lambda ids, wanted: (module.rows(ids) - wanted).square().sum(1).mean()
    optimizer = torch.optim.Adagrad(
        module.parameters(),
        embedding.LEARNING_RATE,
        initial_accumulator_value=embedding.INITIAL_ACCUMULATOR,
        eps=0.0,
    )
    sets = itertools.cycle(_tensors(torch, list(embedding.id_sets(1 + worker))))
    (wanted,) = _tensors(torch, [embedding.targets()])
    return module, optimizer, lambda: (next(sets), wanted)


def _tensors(torch: Any, values: Sequence[Any]) -> list[Any]:
    return [torch.from_numpy(value) for value in values]


def main() -> None:
    (way,) = sys.argv[1:]
    if importlib.util.find_spec("torch") is None:
        skip("the package torch is not installed")
        return
    import torch

    torch.set_num_threads(THREADS)
    address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    other = Task(_start_other, address, way)
    try:
        joined = (
            Rpc(torch, address, other)
            if way == "rpc"
            else Gloo(torch, address, other, way == "flat")
        )
        serve(joined.make, f"torch {torch.__version__}")
    finally:
        other.end()


if __name__ == "__main__":
    main()
