"""`tf.test`: the base class of unit tests, gradient checks, benchmarks, small clusters.

class SquareTest(tf.test.TestCase):
    def testSquare(self):
        with self.test_session():
            self.assertAllEqual(tf.square([2, 3]).eval(), [4, 9])
"""

from unittest import mock

from sparkflow._api.loading import answers
from sparkflow.test.benchmark import Benchmark, benchmark_config
from sparkflow.test.case import TestCase, get_temp_dir
from sparkflow.test.devices import (
    create_local_cluster,
    gpu_device_name,
    is_built_with_cuda,
    is_built_with_gpu_support,
    is_built_with_rocm,
    is_built_with_xla,
    is_gpu_available,
    test_src_dir_path,
)
from sparkflow.test.gradients import compute_gradient, compute_gradient_error
from sparkflow.test.messages import assert_equal_graph_def
from sparkflow.test.running import main
from sparkflow.test.stubs import StubOutForTesting

__getattr__ = answers("test")

__all__ = [
    "Benchmark",
    "StubOutForTesting",
    "TestCase",
    "assert_equal_graph_def",
    "benchmark_config",
    "compute_gradient",
    "compute_gradient_error",
    "create_local_cluster",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_built_with_xla",
    "is_gpu_available",
    "main",
    "mock",
    "test_src_dir_path",
]
