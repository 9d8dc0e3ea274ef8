"""sparkflow from scratch: the whole idea in one file, with numpy, Arrow and PySpark.

A graph of plain objects, its gradients as more nodes of the same graph, a session that runs what
is fetched, a cut of the graph between workers and parameter servers, and one barrier stage
that trains it where the rows are. docs/architecture.md describes what sparkflow does beyond this.

    scripts/run_example from_scratch
"""

from __future__ import annotations

import argparse
import hmac
import itertools
import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession
from sklearn.datasets import load_digits

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------- 1. the graph


@dataclass(eq=False)
class Node:
    """One operation and its single result. Building a node computes nothing."""

    op: str
    inputs: tuple[Node, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    device: str = "worker"

    def __add__(self, other: Node) -> Node:
        return Node("add", (self, other))

    def __mul__(self, other: Node) -> Node:
        return Node("multiply", (self, other))

    def __neg__(self) -> Node:
        return Node("negative", (self,))

    def __matmul__(self, other: Node) -> Node:
        return Node("matmul", (self, other))


def placeholder(name: str) -> Node:
    return Node("placeholder", attrs={"name": name})


def variable(name: str, initial: Array) -> Node:
    return Node("variable", attrs={"name": name, "initial": initial}, device="ps")


def constant(value: Any) -> Node:
    return Node("constant", attrs={"value": np.asarray(value, np.float32)})


def tanh(x: Node) -> Node:
    return Node("tanh", (x,))


def softmax(x: Node) -> Node:
    return Node("softmax", (x,))


def sum_like(x: Node, like: Node) -> Node:
    """The sum of `x` over the axes along which `like` was broadcast to the shape of `x`."""
    return Node("sum_like", (x, like))


def cross_entropy(logits: Node, labels: Node) -> Node:
    """The mean cross entropy. `labels`: [batch, classes], one-hot."""
    return Node("cross_entropy", (logits, labels))


def assign_sub(variable: Node, value: Node) -> Node:
    """Subtracts `value` from `variable`, on the device of the variable."""
    attrs = {"name": variable.attrs["name"]}
    return Node("assign_sub", (value,), attrs, device=variable.device)


def ancestors(targets: Sequence[Node]) -> list[Node]:
    """All nodes that `targets` need, inputs before their readers. The rest is pruned."""
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in order:
            for read in node.inputs:
                visit(read)
            order[node] = None

    for target in targets:
        visit(target)
    return list(order)


# --------------------------------------------------------- 2. operations: a kernel and a gradient


def _softmax(x: Array) -> Array:
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _cross_entropy(logits: Array, labels: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalised = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(-(labels * normalised).sum(axis=-1).mean(), logits.dtype)


def _sum_like(x: Array, like: Array) -> Array:
    added = x.sum(axis=tuple(range(x.ndim - like.ndim)))
    ones = tuple(axis for axis, size in enumerate(like.shape) if size == 1)
    return np.asarray(added.sum(axis=ones, keepdims=True))


class Op(NamedTuple):
    """An operation's kernel, and its gradient: nodes for its inputs from that of its result."""

    kernel: Callable[..., Array]
    gradient: Callable[[Node, Node], Sequence[Node | None]] | None = None


OPS: dict[str, Op] = {
    "add": Op(np.add, lambda dy, op: [sum_like(dy, x) for x in op.inputs]),
    "multiply": Op(
        np.multiply,
        lambda dy, op: [
            sum_like(dy * op.inputs[1], op.inputs[0]),
            sum_like(dy * op.inputs[0], op.inputs[1]),
        ],
    ),
    "negative": Op(np.negative, lambda dy, op: [-dy]),
    "transpose": Op(np.transpose, lambda dy, op: [Node("transpose", (dy,))]),
    "matmul": Op(
        np.matmul,
        lambda dy, op: [
            dy @ Node("transpose", (op.inputs[1],)),
            Node("transpose", (op.inputs[0],)) @ dy,
        ],
    ),
    "tanh": Op(np.tanh, lambda dy, op: [dy * (constant(1) + -(op * op))]),
    "softmax": Op(_softmax),
    "sum_like": Op(_sum_like),
    "mean_of": Op(lambda x, like: x / np.float32(len(like))),
    "cross_entropy": Op(
        _cross_entropy,
        lambda dy, op: [
            dy * Node("mean_of", (softmax(op.inputs[0]) + -op.inputs[1], op.inputs[0])),
            None,
        ],
    ),
}


def gradients(y: Node, xs: Sequence[Node]) -> list[Node]:
    """Reverse-mode differentiation: the chain rule, from `y` back, as new nodes.

    Raises:
        ValueError: An operation between them has no gradient, or they are not connected.
    """
    found: dict[Node, Node] = {y: constant(1)}
    for node in reversed(ancestors([y])):
        dy = found.get(node)
        if dy is None or not node.inputs:
            continue
        gradient = OPS[node.op].gradient
        if gradient is None:
            raise ValueError(f"{node.op!r} has no gradient.")
        for read, dx in zip(node.inputs, gradient(dy, node), strict=True):
            if dx is not None:
                found[read] = found[read] + dx if read in found else dx
    for x in xs:
        if x not in found:
            raise ValueError(f"The result does not depend on {x.attrs.get('name', x.op)!r}.")
    return [found[x] for x in xs]


def minimize(loss: Node, learning_rate: float) -> list[Node]:
    """Nodes that apply one step of gradient descent to every variable that `loss` depends on."""
    variables = [node for node in ancestors([loss]) if node.op == "variable"]
    rate = constant(learning_rate)
    return [
        assign_sub(variable, rate * gradient)
        for variable, gradient in zip(variables, gradients(loss, variables), strict=True)
    ]


# --------------------------------------------------------------------------------- 3. the session


class Variables:
    """The values of variables by name. Thread-safe."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.values = {
            node.attrs["name"]: np.array(node.attrs["initial"], np.float32)
            for node in nodes
            if node.op == "variable"
        }
        self._lock = threading.Lock()  # guards the arrays, so that no thread reads half an update

    def read(self, name: str) -> Array:
        """Returns a copy of the value."""
        with self._lock:
            return self.values[name].copy()

    def assign_sub(self, name: str, value: Array) -> Array:
        """Subtracts `value` from the variable and returns the new value."""
        with self._lock:
            self.values[name] -= value
            return self.values[name].copy()


class Link(Protocol):
    """The connection to a partition on another device."""

    def send(self, key: int, value: Array) -> None:
        """Sends the tensor of the edge that was cut as number `key`."""

    def receive(self, key: int) -> Array:
        """Waits for the tensor of the edge that was cut as number `key`."""


def run(
    order: Sequence[Node],
    feeds: Mapping[str, Array],
    variables: Variables,
    links: Mapping[str, Link],
) -> dict[Node, Array]:
    """Runs one step: every node once, in the given order. Returns their results."""
    results: dict[Node, Array] = {}
    for node in order:
        inputs = [results[read] for read in node.inputs]
        match node.op:
            case "placeholder":
                result = feeds[node.attrs["name"]]
            case "constant":
                result = node.attrs["value"]
            case "variable":
                result = variables.read(node.attrs["name"])
            case "assign_sub":
                result = variables.assign_sub(node.attrs["name"], inputs[0])
            case "send":
                links[node.attrs["to"]].send(node.attrs["key"], inputs[0])
                result = inputs[0]
            case "receive":
                result = links[node.attrs["from"]].receive(node.attrs["key"])
            case _:
                result = np.asarray(OPS[node.op].kernel(*inputs))
        results[node] = result
    return results


class Session:
    """Runs a graph in this process, as `tf.Session` does."""

    def __init__(self, targets: Sequence[Node]) -> None:
        self.variables = Variables(ancestors(targets))

    def run(self, fetches: Sequence[Node], feeds: Mapping[str, Array]) -> list[Array]:
        """Returns the values of `fetches`; runs only what they need."""
        results = run(ancestors(fetches), feeds, self.variables, {})
        return [results[fetch] for fetch in fetches]


# ------------------------------------------------------------------- 4. placement and partitions


def place(targets: Sequence[Node], servers: int) -> None:
    """Assigns the variables, with their updates, to the parameter servers round-robin."""
    number = itertools.count()
    device = {
        node.attrs["name"]: f"ps:{next(number) % servers}"
        for node in ancestors(targets)
        if node.op == "variable"
    }
    for node in ancestors(targets):
        if node.op in ("variable", "assign_sub"):
            node.device = device[node.attrs["name"]]


def partition(targets: Sequence[Node]) -> dict[str, list[Node]]:
    """Cuts the graph where an edge leaves its device: a send here, a receive there.

    Each device then runs its nodes by *level*, the number of cuts that come before them.
    So a server sends all that a step reads before it waits for a gradient, and no deadlock
    can occur.
    """
    level: dict[Node, int] = {}
    copies: dict[Node, Node] = {}
    received: dict[tuple[Node, str], Node] = {}
    parts: dict[str, list[Node]] = {}
    for node in ancestors(targets):
        inputs = []
        for read in node.inputs:
            local = copies[read]
            if read.device != node.device:
                if (read, node.device) not in received:
                    key = len(received)
                    sent = Node("send", (local,), {"key": key, "to": node.device}, read.device)
                    received[read, node.device] = Node(
                        "receive", (), {"key": key, "from": read.device}, node.device
                    )
                    level[sent] = level[local]
                    level[received[read, node.device]] = level[local] + 1
                    parts.setdefault(read.device, []).append(sent)
                    parts.setdefault(node.device, []).append(received[read, node.device])
                local = received[read, node.device]
            inputs.append(local)
        copies[node] = Node(node.op, tuple(inputs), node.attrs, node.device)
        level[copies[node]] = max((level[read] for read in inputs), default=0)
        parts.setdefault(node.device, []).append(copies[node])
    return {device: sorted(nodes, key=level.__getitem__) for device, nodes in parts.items()}


# ------------------------------------------------------------------------------- 5. the transport


class TcpLink:
    """Tensors over a socket: a line of JSON that describes one, then its bytes. Never a pickle."""

    def __init__(self, connection: socket.socket) -> None:
        # Otherwise a small tensor waits up to 40 ms until the data before it are acknowledged.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._file = connection.makefile("rwb")
        self._arrived: dict[int, Array] = {}

    def send(self, key: int, value: Array) -> None:
        """See `Link`."""
        value = np.asarray(value, np.float32)
        self._file.write(json.dumps({"key": key, "shape": value.shape}).encode() + b"\n")
        self._file.write(value.tobytes())
        self._file.flush()

    def receive(self, key: int) -> Array:
        """See `Link`.

        Raises:
            EOFError: The other side has finished sending.
        """
        while key not in self._arrived:
            line = self._file.readline()
            if not line:
                raise EOFError("The other task has ended.")
            header = json.loads(line)
            count = int(np.prod(header["shape"], dtype=np.int64))
            data = np.frombuffer(self._file.read(4 * count), np.float32)
            self._arrived[header["key"]] = data.reshape(header["shape"])
        return self._arrived.pop(key)

    def finish(self) -> None:
        """Stops sending, and waits until the other side has processed everything."""
        self._connection.shutdown(socket.SHUT_WR)
        while self._file.read(65536):
            pass


class ParameterServer:
    """Runs its partition once per step of every worker that has connected with the token."""

    def __init__(self, nodes: Sequence[Node], token: str) -> None:
        self.variables = Variables(nodes)
        self._nodes, self._token = nodes, token.encode()
        self._listener = socket.create_server(("", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accepts no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            said = connection.recv(len(self._token), socket.MSG_WAITALL)
            if not hmac.compare_digest(said, self._token):
                return
            link = TcpLink(connection)
            try:
                while True:
                    run(self._nodes, {}, self.variables, {"worker": link})
            except (EOFError, OSError):  # the worker has finished its last step
                return


# ----------------------------------------------------------------------------- 6. inside of Spark

RESULT = "name string, shape array<long>, value array<float>"


def _array(column: pa.ChunkedArray) -> Array:
    """[rows, elements] float32 of a list column, without a Python object per row."""
    flat = pa.concat_arrays([chunk.flatten() for chunk in column.chunks])
    values: Array = flat.to_numpy(zero_copy_only=False)
    return values.astype(np.float32).reshape(len(column), -1)


def fit(
    df: DataFrame, loss: Node, train: Sequence[Node], workers: int, servers: int, epochs: int
) -> dict[str, Array]:
    """Trains in one barrier stage, asynchronously. `df`: array columns named like the placeholders.

    The first `servers` of the tasks host a parameter server in addition to their worker;
    sparkflow has separate tasks for them.
    """
    targets = [loss, *train]
    place(targets, servers)
    parts = partition(targets)
    token = secrets.token_hex(16)
    columns = [node.attrs["name"] for node in ancestors(targets) if node.op == "placeholder"]
    batch_rows = 32

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        table = pa.Table.from_batches(list(batches))
        data = {name: _array(table[name]) for name in columns}
        with ExitStack() as stack:
            server = None
            if rank < servers:
                server = ParameterServer(parts[f"ps:{rank}"], token)
                stack.callback(server.close)
            host = context.getTaskInfos()[rank].address.partition(":")[0]
            addresses = context.allGather(json.dumps([host, server.port if server else 0]))
            links: dict[str, TcpLink] = {}
            for ps in range(servers):
                host, port = json.loads(addresses[ps])
                connection = stack.enter_context(socket.create_connection((host, port), 60))
                connection.sendall(token.encode())
                links[f"ps:{ps}"] = TcpLink(connection)
            random = np.random.default_rng(rank)
            for _ in range(epochs):
                order = random.permutation(len(table))
                for at in range(0, len(order), batch_rows):
                    chosen = order[at : at + batch_rows]
                    feeds = {name: values[chosen] for name, values in data.items()}
                    run(parts["worker"], feeds, Variables([]), links)
            for link in links.values():
                link.finish()
            context.barrier()  # now every server has applied the updates of every worker
            values = server.variables.values if server else {}
            yield pa.RecordBatch.from_pydict(
                {
                    "name": list(values),
                    "shape": [list(value.shape) for value in values.values()],
                    "value": [value.ravel() for value in values.values()],
                },
                schema=pa.schema(
                    [
                        ("name", pa.string()),
                        ("shape", pa.list_(pa.int64())),
                        ("value", pa.list_(pa.float32())),
                    ]
                ),
            )

    trained = df.select(columns).repartition(workers).mapInArrow(task, RESULT, barrier=True)
    return {
        row["name"]: np.array(row["value"], np.float32).reshape(row["shape"])
        for row in trained.collect()
    }


# ------------------------------------------------------------------------------ 7. and it learns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()

    images, digits = load_digits(return_X_y=True)
    images, one_hot = (images / 16).astype(np.float32), np.eye(10, dtype=np.float32)[digits]
    random = np.random.default_rng(0)
    order = random.permutation(len(images))
    training, test = order[:1500], order[1500:]

    x, labels = placeholder("image"), placeholder("label")
    w1 = variable("w1", random.normal(0, 64**-0.5, (64, 50)))
    b1 = variable("b1", np.zeros(50))
    w2 = variable("w2", random.normal(0, 50**-0.5, (50, 10)))
    b2 = variable("b2", np.zeros(10))
    logits = tanh(x @ w1 + b1) @ w2 + b2
    loss = cross_entropy(logits, labels)
    train = minimize(loss, learning_rate=0.2)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = [
        (image.tolist(), label.tolist())
        for image, label in zip(images[training], one_hot[training], strict=True)
    ]
    df = spark.createDataFrame(rows, "image array<float>, label array<float>")
    trained = fit(df, loss, train, workers=2, servers=2, epochs=options.epochs)
    spark.stop()

    session = Session([logits])
    session.variables.values.update(trained)
    [found] = session.run([logits], {"image": images[test]})
    accuracy = np.mean(found.argmax(axis=1) == digits[test])
    print(f"{len(trained)} variables, trained by 2 workers and 2 parameter servers")
    print(f"accuracy on {len(test)} digits that they have not seen: {accuracy:.3f}")


if __name__ == "__main__":
    main()
