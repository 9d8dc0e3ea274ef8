"""From `model_fn` to graphs: the one that every worker trains with, and the one for inference.

Both are built on the driver, once. Only protobuf messages leave it: no user code reaches an
executor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sparkflow as tf
from sparkflow.export import Output, Signature
from sparkflow.spark.job.child import TRAIN_DATA
from sparkflow.train.replication import AsyncReplication, Replication
from sparkflow.train.sync import SyncReplication
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.protos.graph_pb2 import GraphDef

ModelFn = Callable[..., Any]

WORKER_DEVICE = "/job:worker"
"""Every session replaces it by its own worker's task."""

FEATURES_INPUT = "features"


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """What a replica runs.

    Attributes:
        graph_def: The graph; computation is on `/job:worker`, variables are on tasks of `/job:ps`.
        initializers: Operations that give all variables their first values.
        loss: Tensor, [] float: the mean loss of the worker's batch.
        weight: Tensor, [] float32: the rows of the worker's batch.
        train_op: The operation of a step.
        variables: Names of the variables.
        strategy: How the replicas' gradients reach the variables.
    """

    graph_def: GraphDef
    initializers: tuple[str, ...]
    loss: str
    weight: str
    train_op: str
    variables: tuple[str, ...]
    strategy: Replication

    def replica(self, index: int, count: int) -> GraphDef:
        """The graph as replica `index` of `count` runs it."""
        return self.strategy.specialised(self.graph_def, index, count)


@dataclass(frozen=True, slots=True)
class InferenceGraph:
    """What `transform` runs.

    Attributes:
        graph_def: The graph.
        signature: Its input and outputs.
        variables: Names of its variables.
    """

    graph_def: GraphDef
    signature: Signature
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """What `model_fn` is called with, beside its mode.

    Attributes:
        dim: Features per row.
        label_dtype: int64 or float32.
        params: The user's parameters.
        seed: Of the graph's random ops.
    """

    dim: int
    label_dtype: DType
    params: Mapping[str, Any]
    seed: int


def build_training_graph(
    model_fn: ModelFn, inputs: ModelInputs, num_ps: int, sync: bool
) -> TrainingGraph:
    """Calls `model_fn` in TRAIN mode and returns the graph it built.

    Args:
        model_fn: `(features, labels, mode, params)`, the latter three by name and as far as it
            takes them.
        inputs: What it is called with.
        num_ps: Tasks over which the variables are spread, balanced by their sizes.
        sync: Whether the gradients of all workers are averaged.

    Raises:
        TypeError, ValueError: It returned something else than a spec with loss and train_op.
        Exception: What `model_fn` raises, unchanged.
    """
    graph = tf.Graph()
    setter = tf.train.replica_device_setter(
        ps_tasks=num_ps, worker_device=WORKER_DEVICE, ps_strategy=_LeastLoaded(num_ps)
    )
    with graph.as_default(), graph.device(setter):
        tf.set_random_seed(inputs.seed)
        types = [tf.float32, inputs.label_dtype, tf.float32]
        sizes = [(None, inputs.dim), (None,), ()]
        iterator = graph.apply(
            "IteratorV2",
            (),
            {
                "shared_name": TRAIN_DATA,
                "container": "",
                "output_types": types,
                "output_shapes": sizes,
            },
            name="train_data",
        )
        features, labels, weight = graph.apply(
            "IteratorGetNext",
            (iterator,),
            {"output_types": types, "output_shapes": sizes},
            name="next_batch",
        )
        strategy = SyncReplication(graph, weight) if sync else AsyncReplication(graph)
        mode = tf.estimator.ModeKeys.TRAIN
        with strategy.scope():
            spec = _call(model_fn, features, labels, mode, inputs.params)
        if sync and not strategy.join_ops:
            raise ValueError(
                "With syncMode='sync' the train_op must come from an optimizer's minimize or "
                "apply_gradients; this one does not"
            )
        train_op = tf.group(spec.train_op, name="train_step")
        loss = tf.identity(tf.reshape(spec.loss, []), name="reported_loss")
        initializers = (tf.global_variables_initializer(), tf.local_variables_initializer())
        names = tuple(variable.op.name for variable in tf.global_variables())
    return TrainingGraph(
        graph_def=graph.to_message(),
        initializers=tuple(op.name for op in initializers),
        loss=loss.name,
        weight=weight.name,
        train_op=train_op.name,
        variables=names,
        strategy=strategy,
    )


def build_inference_graph(model_fn: ModelFn, inputs: ModelInputs) -> InferenceGraph:
    """Calls `model_fn` in PREDICT mode and returns the graph it built.

    Raises:
        TypeError, ValueError: It returned something else than a spec with predictions that have
            one row per row of the features.
        Exception: What `model_fn` raises, unchanged.
    """
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(inputs.seed)
        features = tf.placeholder(tf.float32, [None, inputs.dim], name=FEATURES_INPUT)
        mode = tf.estimator.ModeKeys.PREDICT
        spec = _call(model_fn, features, None, mode, inputs.params)
        predictions = spec.predictions  # that there are some, EstimatorSpec sees to
        if not isinstance(predictions, Mapping):
            predictions = {"prediction": predictions}
        outputs = tuple(_output(name, tensor) for name, tensor in predictions.items())
        names = tuple(variable.op.name for variable in tf.global_variables())
    signature = Signature(features.name, inputs.dim, outputs)
    return InferenceGraph(graph.to_message(), signature, names)


def require_same_variables(training: TrainingGraph, inference: InferenceGraph) -> None:
    """Passes when training makes every variable that inference reads.

    Raises:
        ValueError: It does not.
    """
    missing = sorted(set(inference.variables) - set(training.variables))
    if missing:
        raise ValueError(
            f"model_fn makes the variables {', '.join(missing)} in mode PREDICT but not in mode "
            "TRAIN; both modes must build the same network under the same names"
        )


def _call(
    model_fn: ModelFn, features: Any, labels: Any, mode: str, params: Mapping[str, Any]
) -> Any:
    given = {"labels": labels, "mode": mode, "params": dict(params)}
    parameters = inspect.signature(model_fn).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    spec = model_fn(
        features, **{key: value for key, value in given.items() if takes_all or key in parameters}
    )
    if not isinstance(spec, tf.estimator.EstimatorSpec):
        raise TypeError(
            f"model_fn must return a tf.estimator.EstimatorSpec, in mode {mode!r} it returned "
            f"{type(spec).__name__}"
        )
    if spec.mode != mode:
        raise ValueError(
            f"model_fn was called in mode {mode!r} and returned a spec of mode {spec.mode!r}"
        )
    return spec


def _output(name: Any, tensor: Any) -> Output:
    if not isinstance(name, str) or not isinstance(tensor, tf.Tensor):
        raise TypeError(f"Predictions are texts with tensors, got {name!r}: {tensor!r}")
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    if shape is None or not shape or shape[0] is not None or len(shape) > 2:
        static = None if shape is None else tuple(shape)
        raise ValueError(
            f"The prediction {name!r} has shape {shapes.text(static)}; it must have one row per "
            "row of the features: (?,) or (?, n)"
        )
    return Output(name, tensor.name, tensor.dtype.base_dtype.name, tuple(shape[1:]))


class _LeastLoaded:
    """Puts each variable on the parameter server that holds the fewest bytes so far."""

    def __init__(self, num_ps: int) -> None:
        self._bytes = [0] * num_ps

    def __call__(self, op: Any) -> int:
        task = self._bytes.index(min(self._bytes))
        elements = shapes.num_elements(op.get_attr("shape"))
        # At least one, so that variables of unknown size are spread, too.
        self._bytes[task] += max(1, (elements or 0) * op.get_attr("dtype").base.size)
        return task
