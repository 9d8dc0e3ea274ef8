import numpy as np

from sparkflow_runtime.master.remote_link import import_update
from sparkflow_runtime.protos.run_loop_pb2 import RunLoopUpdate
from sparkflow_runtime.tensor_proto import export_tensor


def test_what_a_loop_elsewhere_yielded_comes_whole() -> None:
    sent = RunLoopUpdate(first_step=4, num_steps=3, waited_s=0.25, elapsed_s=0.5, num_dropped=1)
    sent.value.add(name="0", tensor=export_tensor(np.float32([1.0, 2.0])))
    update = import_update(RunLoopUpdate.FromString(sent.SerializeToString()))
    assert (update.first_step, update.num_steps, update.num_dropped) == (4, 3, 1)
    assert (update.waited_s, update.elapsed_s) == (0.25, 0.5)
    np.testing.assert_array_equal(update.values[0], np.float32([1.0, 2.0]))
