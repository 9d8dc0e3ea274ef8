"""The device and threads on which a model runs in a Python worker."""

import pytest

from sparkflow.spark.model.place import place
from sparkflow.spark.model.prediction import Place
from sparkflow_runtime.errors import FailedPreconditionError

UUIDS = ("GPU-a", "GPU-b")


def _place(
    wanted: str, gpus: list[str] | None, environment: dict[str, str] | None = None, seen: int = 2
) -> Place:
    return place(wanted, 3, gpus, environment or {}, lambda: UUIDS[:seen], lambda: seen)


@pytest.mark.parametrize(
    ("wanted", "gpus", "environment", "expected"),
    [
        ("auto", None, {}, "/device:CPU:0"),
        ("auto", [], {}, "/device:CPU:0"),
        ("cpu", ["1"], {}, "/device:CPU:0"),
        ("gpu", None, {}, "/device:GPU:0"),
        ("auto", ["1"], {}, "/device:GPU:1"),
        ("gpu", ["1", "0"], {}, "/device:GPU:1"),
        ("auto", ["5"], {"CUDA_VISIBLE_DEVICES": "4,5"}, "/device:GPU:1"),
        ("auto", ["GPU-b"], {}, "/device:GPU:1"),
        ("auto", ["1"], {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, "/device:GPU:1"),
    ],
)
def test_spark_says_which_gpu(
    wanted: str, gpus: list[str] | None, environment: dict[str, str], expected: str
) -> None:
    assert _place(wanted, gpus, environment).device == expected


@pytest.mark.parametrize(
    ("gpus", "environment", "seen", "text"),
    [
        (["7"], {}, 2, "Spark gave the task the GPU '7', but this Python worker sees 2 GPUs"),
        (["1"], {"CUDA_VISIBLE_DEVICES": "4,5"}, 2, r"\(CUDA_VISIBLE_DEVICES='4,5'\)"),
        (["GPU-z"], {}, 2, "the GPU 'GPU-z'"),
    ],
)
def test_gpus_that_are_not_there(
    gpus: list[str], environment: dict[str, str], seen: int, text: str
) -> None:
    with pytest.raises(FailedPreconditionError, match=text):
        _place("auto", gpus, environment, seen)


def test_gpus_that_nobody_sees(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FailedPreconditionError, match="sees none: a GPU needs its driver and cupy"):
        _place("gpu", ["0"], {}, 0)
    assert _place("auto", ["0"], {}, 0).device == "/device:CPU:0"
    assert "the task has the GPUs ['0'], but this Python worker sees none" in caplog.text


def test_threads_are_those_of_the_task_unless_somebody_says_more() -> None:
    assert _place("cpu", None).threads == 3
    assert _place("cpu", None, {"OMP_NUM_THREADS": "2"}).threads == 0  # read elsewhere
