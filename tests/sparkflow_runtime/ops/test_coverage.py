"""Every registered op has a row in the test table; every gradient is checked by one."""

from pathlib import Path

import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import not_differentiable
from sparkflow_runtime.ops.optimizers.narrow_update import NarrowUpdate
from support import op_cases

HERE = Path(__file__).parent
CASES = [case for module in op_cases.load_cases(HERE) for case in getattr(module, "CASES", [])]

# Ops whose effect outlives the call, or whose result is not determined by their inputs: one call
# on one set of inputs shows too little of them.
TESTED_IN = {  # by module of ops
    "py_func": "test_py_func.py",
    "added_products": "test_added_products.py",
    "barrier": "../../sparkflow/queues/test_barrier.py",
    "candidate_sampling": "test_candidate_sampling.py",
    "collective": "test_collective.py",
    "collective_parts": "test_collective.py",
    "conditional_accumulator": "test_conditional_accumulator.py",
    "control_flow": "test_control_flow.py",
    "dataset": "test_dataset.py",
    "dataset_files": "test_dataset.py",
    "dataset_functions": "test_dataset.py",
    "debugging": "test_debugging.py",
    "embedding_table": "test_embedding_table.py",
    "fractional_pool": "test_fractional_pool.py",
    "frames": "test_frames.py",
    "gradient_rounds": "test_gradient_rounds.py",
    "image_sampling": "test_image_sampling.py",
    "io_files": "test_io_files.py",
    "iterator": "test_iterator.py",
    "iterator_handles": "test_iterator.py",
    "lookup_table": "test_lookup_table.py",
    "queue": "test_queue.py",
    "random": "test_random.py",
    "random_distributions": "test_random.py",
    "random_states": "test_random_states.py",
    "reader": "test_reader.py",
    "resource_variable": "test_resource_variable.py",
    "save_restore": "test_save_restore.py",
    "scatter": "test_scatter.py",
    "scatter_nd": "test_scatter_nd.py",
    "session_handle": "test_session_handle.py",
    "row_travel": "test_row_travel.py",
    "sparse_map": "test_sparse_map.py",
    "staleness": "test_staleness.py",
    "staging": "../../sparkflow/queues/test_staging.py",
    "variable_ops": "test_variable_ops.py",
    "stateless_random": "test_random.py",
    "step": "test_step.py",
    "strided_assign": "test_scatter_nd.py",
    "summary": "test_summary.py",
    "tape": "test_tape.py",
    "old_handles": "test_old_handles.py",
    "tensor_array_handle": "test_tensor_array_handle.py",
    "tensor_list": "test_tensor_list.py",
    "tensor_list_joining": "test_tensor_list.py",
    "tensor_list_sizes": "test_tensor_list_sizes.py",
    "variant_sums": "test_tensor_list.py",
    "transfer": "test_transfer.py",
}
WITHOUT_ROW = {
    **{
        op.op_type: "a figure of TensorFlow for each is demanded by test_apply_gradient.py"
        for op in registry.all_ops()
        if op.op_type.startswith(("Apply", "SparseApply"))
    },
    **{
        op.op_type: "each is compared with its reference form by test_resource_variable.py"
        for op in registry.all_ops()
        if op.op_type.startswith(("ResourceApply", "ResourceSparseApply"))
    },
    **{
        op.op_type: "each is compared with its float32 form by test_narrow_update.py"
        for op in registry.all_ops()
        if isinstance(op, NarrowUpdate)
    },
    "Placeholder": "fails by design when it runs: it must be fed",
}
LISTS = (".tensor_list", ".tensor_list_joining", ".tensor_list_sizes", ".variant_sums", ".tape")
WITHOUT_GRADIENT_CHECK = {
    **{
        op.op_type: "no arrays: compared with TensorFlow in differential/control_flow.json"
        for op in registry.all_ops()
        if type(op).__module__.endswith(LISTS)
    },
    **dict.fromkeys(
        ("ReadVariableOp", "ResourceGather", "ResourceGatherNd"),
        "a handle is no number: see test_golden_graphs.py",
    ),
    "EmbeddingLookup": "its rows are variables', compared with dense ones in test_variable.py",
    "Cholesky": "that of a symmetric matrix, see test_decompositions.py",
    "MatrixSolveLs": "needs to know the shape of the matrix, see test_decompositions.py",
    "SparseMatMul": "float32 only, see test_decompositions.py",
    "SparseDenseCwiseAdd": "its gradient is an error, as in TensorFlow",
    "CropAndResize": "computes in float32: compared with TensorFlow in differential/image.json",
    "ResizeBicubic": "computes in float32: compared with TensorFlow in differential/image.json",
    "ResizeBilinear": "computes in float32: compared with TensorFlow in differential/image.json",
    "CTCLoss": "its second output is its gradient, compared in differential/nn_sparse.json",
    **{
        op.op_type: "an estimate, no derivative; compared with TensorFlow in golden/differential"
        for op in registry.all_ops()
        if op.op_type.startswith(("FakeQuant", "QuantizeAnd"))
    },
    "FractionalAvgPool": "its windows are drawn anew, see test_fractional_pool.py",
    "FractionalMaxPool": "its windows are drawn anew, see test_fractional_pool.py",
    "RandomGamma": "test_random.py: the same numbers cannot be drawn for other parameters",
    "PreventGradient": "its gradient is an error",
    "Print": "test_debugging.py: it writes whenever it runs",
}


def family(op) -> str:
    return type(op).__module__.rpartition(".")[2]


SHIPPED = [op for op in registry.all_ops() if type(op).__module__.startswith("sparkflow_runtime")]


def test_every_op_has_a_row_or_a_reason():
    rows = {case.op for case in CASES} | WITHOUT_ROW.keys()
    missing = [op.op_type for op in SHIPPED if op.op_type not in rows]
    assert [name for name in missing if family(registry.lookup(name)) not in TESTED_IN] == []


def test_every_gradient_is_checked_numerically():
    checked = {case.op for case in CASES if case.gradient} | WITHOUT_GRADIENT_CHECK.keys()
    differentiable = [
        op.op_type
        for op in SHIPPED
        if op.gradient is not None and type(op).gradient is not not_differentiable
    ]
    assert [name for name in differentiable if name not in checked] == []


@pytest.mark.parametrize(("name", "file"), TESTED_IN.items())
def test_ops_without_rows_are_named_in_tests_of_their_own(name, file):
    rows = {case.op for case in CASES} | WITHOUT_ROW.keys()
    found = [HERE / file] if "/" in file else list(HERE.rglob(file))
    assert len(found) == 1, found
    text = found[0].read_text()
    without = [op.op_type for op in SHIPPED if family(op) == name and op.op_type not in rows]
    assert without, f"all ops of {name} have rows"
    assert [op_type for op_type in without if op_type not in text] == []


def test_exemptions_are_needed():
    rows = {case.op for case in CASES}
    assert not WITHOUT_ROW.keys() & rows
    assert not WITHOUT_GRADIENT_CHECK.keys() & {case.op for case in CASES if case.gradient}
