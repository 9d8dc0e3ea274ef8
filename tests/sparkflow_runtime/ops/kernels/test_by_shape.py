"""The kernels that a node remembers."""

import threading

import numpy as np

from sparkflow_runtime.ops.kernels.by_shape import REMEMBERED, ByShape, Chosen


def test_the_latest_shapes_are_remembered() -> None:
    asked: list[int] = []

    def choose(x: np.ndarray) -> Chosen | None:
        asked.append(len(x))
        return None if len(x) == 3 else Chosen(x.shape, lambda inputs, out: True)

    kernels = ByShape(choose)
    for size in range(REMEMBERED + 1):
        kernels.chosen([np.empty(size)])
    asked.clear()
    for size in range(1, REMEMBERED + 1):
        found = kernels.chosen([np.empty(size)])
        assert (found is None) == (size == 3)
    assert not asked
    kernels.chosen([np.empty(0)])
    kernels.chosen([np.empty(1)])
    kernels.chosen([np.empty(REMEMBERED)])
    assert asked == [0, 1]


def test_threads_with_new_shapes_do_not_disturb_each_other() -> None:
    kernels = ByShape(lambda x: Chosen(x.shape, lambda inputs, out: True))
    wrong: list[object] = []

    def run(start: int) -> None:
        for size in range(start, start + 2000):
            found = kernels.chosen([np.empty(size % 200)])
            if found is None or found.shape != (size % 200,):
                wrong.append(found)

    threads = [threading.Thread(target=run, args=(37 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
