"""Collectives as ops: both halves (`_CollectiveStart`, `_CollectiveWait`) on every rank.

Sums and plans are tested with the resources.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ir.node import START, WAIT, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.resources.container import Resources
from support.eager import EagerBuilder
from support.graphs import node
from support.meetings import FakeMeeting, MeetingPlace, device_names
from support.step import FakeStep

DEADLINE_S = 30
KINDS = [
    "CollectiveReduce",
    "CollectiveBcastSend",
    "CollectiveBcastRecv",
    "CollectiveBroadcast",
    "CollectiveGather",
    "CollectiveWeightedMean",
    "CollectiveWeightedRows",
]


class Ranks:
    """Kernels of `_CollectiveStart` and `_CollectiveWait` on concurrent ranks."""

    def __init__(self, size, dtype=dtypes.float32):
        self.size = size
        self.dtype = dtype
        self._names = device_names(size)
        self._contexts = [
            KernelContext(np, "CPU", name, Resources(), Resources()) for name in self._names
        ]
        self._kernels = {}

    def run(self, kinds, inputs, tin, tout, **attrs):
        """Returns each rank's result of waiting for its inputs."""
        place = MeetingPlace()
        kinds = [kinds] * self.size if isinstance(kinds, str) else kinds
        with ThreadPoolExecutor(4 * self.size) as threads:

            def run(rank):
                step = FakeStep()
                step.ranks = FakeMeeting(place, self._names[rank], threads)
                start, wait = self._halves(rank, kinds[rank], tin[: len(inputs[rank])], tout, attrs)
                start(step, *inputs[rank])
                return wait(step)

            return list(threads.map(run, range(self.size)))

    def _halves(self, rank, kind, tin, tout, attrs):
        key = (rank, kind)
        if key not in self._kernels:
            where = {
                "group_key": 1,
                "instance_key": 2,
                "rank": rank,
                "devices": list(self._names),
                "between": False,
                "timeout_seconds": float(DEADLINE_S),
            }
            defaults = {"merge_op": "Add", "final_op": "Id", "shape": None, "root": 0}
            start = node(
                "s",
                START,
                kind=kind,
                Tin=list(tin),
                Tout=list(tout),
                **{**defaults, **attrs},
                **where,
            )
            wait = node("w", WAIT, Tout=list(tout), shapes=[None] * len(tout), **where)
            context = self._contexts[rank]
            self._kernels[key] = tuple(
                registry.lookup(each.op).bind(each, context) for each in (start, wait)
            )
        return self._kernels[key]


FLOAT = dtypes.float32


def test_tensors_are_merged():
    ranks = Ranks(3)
    inputs = [(np.full((2, 2), rank + 1.0, np.float32),) for rank in range(3)]
    for result in ranks.run("CollectiveReduce", inputs, [FLOAT], [FLOAT], final_op="Div"):
        np.testing.assert_array_equal(result, np.full((2, 2), 2))


def test_memory_is_used_again_unless_somebody_reads_it():
    ranks = Ranks(1)
    inputs = [(np.ones(1000, np.float32),)]

    def run():
        (result,) = ranks.run("CollectiveReduce", inputs, [FLOAT], [FLOAT])
        return result

    kept = run()
    addresses = set()
    for _ in range(6):
        made = run()
        made += 1  # what is still referenced must not change
        addresses.add(made.ctypes.data)
        del made
    np.testing.assert_array_equal(kept, 1)
    assert kept.ctypes.data not in addresses
    assert len(addresses) <= 3


def test_scalars_and_empty_tensors():
    ranks = Ranks(2)
    for value in (np.float32(3), np.zeros((0, 2), np.float32)):
        for result in ranks.run("CollectiveReduce", [(value,)] * 2, [FLOAT], [FLOAT]):
            np.testing.assert_array_equal(result, 2 * value)


def test_one_rank_sends_and_the_others_receive():
    ranks = Ranks(3)
    sent = np.arange(6, dtype=np.float32).reshape(2, 3)
    kinds = ["CollectiveBcastRecv", "CollectiveBcastSend", "CollectiveBcastRecv"]
    inputs = [(), (sent,), ()]
    for result in ranks.run(kinds, inputs, [FLOAT], [FLOAT], shape=(2, 3)):
        np.testing.assert_array_equal(result, sent)


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64", "int8", "bfloat16"])
def test_many_tensors_of_the_root_in_one_go(dtype):
    kind = as_dtype(dtype)
    ranks = Ranks(2)
    inputs = [
        (np.full((2, 1), rank, kind.as_numpy_dtype), np.full(3, rank, kind.as_numpy_dtype))
        for rank in range(2)
    ]
    for results in ranks.run("CollectiveBroadcast", inputs, [kind] * 2, [kind] * 2, root=1):
        assert [result.shape for result in results] == [(2, 1), (3,)]
        for result, wanted in zip(results, inputs[1], strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_rows_are_gathered_in_the_order_of_ranks():
    ranks = Ranks(3)
    inputs = [(np.full((rank, 2), rank, np.float32),) for rank in range(3)]
    for result in ranks.run("CollectiveGather", inputs, [FLOAT], [FLOAT]):
        np.testing.assert_array_equal(result[:, 0], [1, 2, 2])


def test_means_are_weighted():
    ranks = Ranks(2)
    inputs = [
        (np.float32(3), np.full(2, 1, np.float32), np.full((1, 2), 5, np.float32)),
        (np.float32(1), np.full(2, 5, np.float32), np.full((1, 2), 1, np.float32)),
    ]
    tin, tout = [FLOAT] * 3, [FLOAT] * 2
    for first, second in ranks.run("CollectiveWeightedMean", inputs, tin, tout):
        np.testing.assert_array_equal(first, [2, 2])
        np.testing.assert_array_equal(second, [[4, 4]])


def test_what_has_no_weight_is_not_read():
    ranks = Ranks(2)
    inputs = [
        (np.float32(0), np.full(2, np.nan, np.float32)),
        (np.float32(2), np.full(2, 7, np.float32)),
    ]
    for result in ranks.run("CollectiveWeightedMean", inputs, [FLOAT] * 2, [FLOAT]):
        np.testing.assert_array_equal(result, [7, 7])


def test_rows_have_their_shares():
    ranks = Ranks(3)
    inputs = [
        (np.float32(w), np.array([i, i + 1]), np.full((2, 2), 8 if w else np.nan, np.float32))
        for i, w in enumerate((3, 0, 1))
    ]
    tin, tout = [FLOAT, dtypes.int64, FLOAT], [dtypes.int64, FLOAT]
    for indices, values in ranks.run("CollectiveWeightedRows", inputs, tin, tout):
        np.testing.assert_array_equal(indices, [0, 1, 2, 3])
        np.testing.assert_array_equal(values[:, 0], [6, 6, 2, 2])


def test_rows_need_an_index_each():
    inputs = [(np.float32(1), np.array([1]), np.zeros((2, 2), np.float32))]
    with pytest.raises(InvalidArgumentError, match=r"one row per index, got .* \(1,\) .* \(2, 2\)"):
        Ranks(1).run("CollectiveWeightedRows", inputs, [FLOAT, dtypes.int64, FLOAT], [FLOAT])


@pytest.mark.parametrize("kind", KINDS)
def test_they_run_at_the_top_of_a_graph_only(kind):
    with pytest.raises(UnimplementedError, match=f"{kind} 'n' is in the body"):
        registry.lookup(kind).bind(Node("n", kind), None)


def infer(kind, *shapes, **attrs):
    return registry.lookup(kind).infer(Inference(shapes, [FLOAT] * len(shapes), attrs))


def test_shapes():
    assert infer("CollectiveReduce", (2, None)) == [(2, None)]
    assert infer("CollectiveBcastSend", (2,)) == [(2,)]
    assert infer("CollectiveBcastRecv", shape=(4,)) == [(4,)]
    assert infer("CollectiveBroadcast", (2,), (3,)) == [(2,), (3,)]
    assert infer("CollectiveGather", (2, 3)) == [(None, 3)]
    assert infer("CollectiveGather", None) == [None]
    assert infer("CollectiveWeightedMean", (), (2,), (3,)) == [(2,), (3,)]
    assert infer("CollectiveWeightedRows", (), (None,), (None, 3)) == [(None,), (None, 3)]
    assert infer("CollectiveWeightedRows", (), None, None) == [(None,), None]
    assert infer("Fingerprints", (2,), ()) == [(2,)]


def test_shapes_that_cannot_be():
    with pytest.raises(InvalidArgumentError, match=r"must know its shape, got \(\?,\)"):
        infer("CollectiveBcastRecv", shape=(None,))
    with pytest.raises(InvalidArgumentError, match="got a scalar"):
        infer("CollectiveGather", ())


def test_equal_tensors_have_equal_fingerprints():
    g = EagerBuilder()
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.int32)
    first = g.Fingerprints([g.tensor(a), g.tensor(b), g.tensor(np.zeros(0, np.float64))]).value
    other = g.Fingerprints([g.tensor(a.copy()), g.tensor(b + 1), g.tensor(np.True_)]).value
    assert first.dtype == np.int64
    assert first[0] == other[0]
    assert first[1] != other[1]
    # RFC 3720, B.4: 32 bytes of zeros.
    assert g.Fingerprints([g.tensor(np.zeros(8, np.float32))]).value[0] == 0x8A9136AA


def test_texts_have_no_fingerprint():
    g = EagerBuilder()
    with pytest.raises(UnimplementedError, match="Tensors of string have no fingerprint"):
        g.Fingerprints([g.tensor(np.array(b"x", object))])
