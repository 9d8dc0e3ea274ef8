"""Collectives of GPUs on a stand-in for cupy and NCCL: order of runs, and the way via the host."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device import gpu_collectives
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
)
from sparkflow_runtime.ir.node import START, WAIT
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from support.fake_cupy import FakeCupy
from support.fake_nccl import FakeNccl
from support.graphs import node
from support.meetings import FakeMeeting, MeetingPlace
from support.step import FakeStep

FLOAT, DEADLINE_S = dtypes.float32, 30.0
DEFAULTS = {"merge_op": "Add", "final_op": "Id", "shape": None, "root": 0}


class GpuRanks:
    """Ranks with one GPU each, as threads."""

    def __init__(self, size=2, nccl=None):
        self.size = size
        self.names = [f"/job:w/replica:0/task:{rank}/device:GPU:0" for rank in range(size)]
        self.cupys = [FakeCupy() for _ in range(size)]
        self.sessions = [Resources() for _ in range(size)]
        self._place = MeetingPlace()
        self._step = 0
        if nccl is not None:
            for cupy in self.cupys:
                nccl.for_rank(cupy)

    def run(self, call):
        """Runs the call of (rank, start and wait of an instance) on each rank."""
        self._place, self._step = MeetingPlace(), self._step + 1
        with ThreadPoolExecutor(8 * self.size) as threads:

            def run(rank):
                step = FakeStep(step_id=self._step)
                step.ranks = FakeMeeting(self._place, self.names[rank], threads)
                try:
                    return call(
                        rank, lambda *each, **attrs: self._halves(rank, step, *each, **attrs)
                    )
                finally:  # so that threads waiting for this rank end
                    step.ranks.leave(AbortedError(message="the step is over"))

            return list(threads.map(run, range(self.size)))

    def _halves(self, rank, step, kind, tin, tout, instance=1, timeout_s=DEADLINE_S, **attrs):
        cupy = self.cupys[rank]
        context = KernelContext(
            cupy, "GPU", self.names[rank], Resources(), self.sessions[rank], gpu=Gpu(cupy, 0)
        )
        where = {
            "group_key": 1,
            "instance_key": instance,
            "rank": rank,
            "devices": self.names,
            "between": False,
            "timeout_seconds": timeout_s,
        }
        given = {**DEFAULTS, **attrs, **where}
        halves = (
            node(f"s{instance}", START, kind=kind, Tin=tin, Tout=tout, **given),
            node(f"w{instance}", WAIT, Tout=tout, shapes=[None] * len(tout), **where),
        )
        start, wait = (registry.lookup(each.op).bind(each, context) for each in halves)
        return (
            lambda *arrays: start(step, *[cupy.asarray(each) for each in arrays]),
            lambda: _on_host(cupy, wait(step)),
        )


def _on_host(cupy, results):
    if isinstance(results, tuple):
        return [cupy.asnumpy(each) for each in results]
    return cupy.asnumpy(results)


@pytest.fixture(params=["nccl", "host"])
def nccl(request):
    return FakeNccl() if request.param == "nccl" else None


@pytest.mark.parametrize("op", ["Add", "Min", "Max", "Mul"])
def test_tensors_are_merged(nccl, op):
    def call(rank, halves):
        start, wait = halves("CollectiveReduce", [FLOAT], [FLOAT], merge_op=op)
        start(np.full((2, 3), rank + 2.0, np.float32))
        return wait()

    expected = {"Add": 5, "Min": 2, "Max": 3, "Mul": 6}[op]
    for result in GpuRanks(2, nccl).run(call):
        np.testing.assert_array_equal(result, np.full((2, 3), expected))
    if nccl is not None:
        assert nccl.calls == {0: ["allReduce 6"], 1: ["allReduce 6"]}


def test_sums_are_divided(nccl):
    for dtype in (FLOAT, dtypes.int32):

        def call(rank, halves, dtype=dtype):
            start, wait = halves("CollectiveReduce", [dtype], [dtype], final_op="Div")
            start(np.array([4 * rank, -3], dtype.as_numpy_dtype))
            return wait()

        expected = [2, -3]
        for result in GpuRanks(2, nccl).run(call):
            np.testing.assert_array_equal(result, expected)


def test_means_are_weighted_and_weight_0_does_not_count(nccl):
    def call(rank, halves):
        start, wait = halves("CollectiveWeightedMean", [FLOAT] * 3, [FLOAT] * 2)
        values = np.array([np.nan, 1, 5], np.float32)[rank]
        start(np.float32([0, 3, 1][rank]), np.full(2, values), np.full((1, 3), values))
        return wait()

    for first, second in GpuRanks(3, nccl).run(call):
        np.testing.assert_array_equal(first, [2, 2])
        np.testing.assert_array_equal(second, [[2, 2, 2]])


def test_many_tensors_of_the_root(nccl):
    def call(rank, halves):
        start, wait = halves("CollectiveBroadcast", [FLOAT] * 2, [FLOAT] * 2, root=1)
        start(np.full(2, rank, np.float32), np.full((1, 2), 3 + rank, np.float32))
        return wait()

    for first, second in GpuRanks(2, nccl).run(call):
        np.testing.assert_array_equal(first, [1, 1])
        np.testing.assert_array_equal(second, [[4, 4]])


def test_rows_go_by_the_host(nccl):
    def call(rank, halves):
        start, wait = halves("CollectiveGather", [FLOAT], [FLOAT])
        start(np.full((rank + 1, 2), rank, np.float32))
        return wait()

    for result in GpuRanks(2, nccl).run(call):
        np.testing.assert_array_equal(result[:, 0], [0, 1, 1])
    assert nccl is None or nccl.calls == {}


def test_runs_follow_their_starts_and_share_a_communicator():
    nccl = FakeNccl()
    ranks = GpuRanks(2, nccl)

    def call(rank, halves):
        parts = [halves("CollectiveReduce", [FLOAT], [FLOAT], instance=i) for i in range(4)]
        for number, (start, _) in enumerate(parts):
            start(np.full(number + 1, rank + 1.0, np.float32))
        return [wait() for _, wait in reversed(parts)]

    for _ in range(2):
        for results in ranks.run(call):
            assert [len(each) for each in results] == [4, 3, 2, 1]
            assert all((each == 3).all() for each in results)
    expected = [f"allReduce {count}" for count in (1, 2, 3, 4)] * 2
    assert nccl.calls == {0: expected, 1: expected}


def test_ranks_that_start_in_another_order_are_told():
    def call(rank, halves):
        parts = [
            halves("CollectiveReduce", [FLOAT], [FLOAT], instance=i, timeout_s=2.0)
            for i in range(2)
        ]
        for start, _ in parts if rank else parts[::-1]:
            start(np.ones(3, np.float32))
        errors = []
        for _, wait in parts:
            with pytest.raises(
                (InvalidArgumentError, AbortedError, DeadlineExceededError)
            ) as caught:
                wait()
            errors.append(caught.value)
        return errors

    errors = [error for each in GpuRanks(2, FakeNccl()).run(call) for error in each]
    assert any("NCCL" in error.message or "waited 2 s" in error.message for error in errors)


def test_a_rank_that_does_not_come_ends_the_run():
    nccl, done = FakeNccl(), threading.Event()

    def call(rank, halves):
        start, wait = halves("CollectiveReduce", [FLOAT], [FLOAT], timeout_s=0.2)
        if rank:
            assert done.wait(DEADLINE_S)
            return
        start(np.ones(3, np.float32))
        with pytest.raises(DeadlineExceededError, match=r"waited 0\.2 s for rank 1"):
            wait()
        start(np.ones(3, np.float32))
        with pytest.raises(AbortedError, match="NCCL on GPU:0 was aborted"):
            wait()
        done.set()

    GpuRanks(2, nccl).run(call)


@pytest.mark.parametrize("made", [np.zeros(127, np.int8), np.zeros(128, np.uint8)])
def test_identifiers_are_checked(made):
    with pytest.raises(InternalError, match="128 bytes"):
        gpu_collectives.require_unique_id(made)


@pytest.mark.gpu
def test_two_gpus_of_this_machine():
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    nccl = gpu_collectives.bindings(cupy)
    unique_id = gpu_collectives.new_unique_id(nccl)

    def run(rank):
        with cupy.cuda.Device(rank):
            communicator = gpu_collectives.GpuCommunicator(cupy, nccl, rank)
            array = cupy.full(1000, rank + 1.0, cupy.float32)
            ready = cupy.cuda.Event(disable_timing=True)
            ready.record(cupy.cuda.get_current_stream())
            communicator.connect(2, rank, lambda _: unique_id)
            communicator.all_reduce(array, "Add", ready, divisor=2)
            result = cupy.asnumpy(array)
            communicator.close()
            return result

    with ThreadPoolExecutor(2) as threads:
        for result in threads.map(run, range(2)):
            np.testing.assert_array_equal(result, 1.5)
