"""`EstimatorSpec`: what a model_fn returns, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.estimator.export_outputs import ExportOutput
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.shape import arrays
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow.train.sessions.scaffold import Scaffold


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Tensor | None
    train_op: Any
    eval_metric_ops: Mapping[str, Any]
    export_outputs: Mapping[str, Any] | None
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


@export("estimator.EstimatorSpec")
class EstimatorSpec(_Fields):
    """The graph of a model, as its model_fn describes it.

    Args:
        mode: One of `ModeKeys`.
        predictions: A tensor, or tensors by name. Required in mode PREDICT.
        loss: A scalar. Required in modes TRAIN and EVAL.
        train_op: The operation of one training step. Required in mode TRAIN.
        eval_metric_ops: By name a pair of a value and the operation that updates it.
        export_outputs: By name what an exported model answers, see `tf.estimator.export`.
        training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks: Called around
            steps of that mode.
        scaffold: What to initialise and save with.

    Raises:
        ValueError: The mode is unknown, something it requires is missing, the loss is not a scalar,
            or a tensor is not in the default graph.
        TypeError: Something is not of the kind that is asked for.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Mapping[str, Any] | None = None,
        training_chief_hooks: Sequence[Any] | None = None,
        training_hooks: Sequence[Any] | None = None,
        scaffold: Any = None,
        evaluation_hooks: Sequence[Any] | None = None,
        prediction_hooks: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        """Checks everything; see the class."""
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            raise ValueError(
                f"mode {mode!r} is not one of tf.estimator.ModeKeys: 'train', 'eval', 'infer'"
            )
        spec = super().__new__(
            cls,
            mode=mode,
            predictions=_checked_predictions(predictions, mode),
            loss=_checked_loss(loss, mode),
            train_op=_checked_train_op(train_op, mode),
            eval_metric_ops=_checked_metrics(eval_metric_ops),
            export_outputs=_checked_outputs(export_outputs),
            training_chief_hooks=_checked_hooks(training_chief_hooks),
            training_hooks=_checked_hooks(training_hooks),
            scaffold=_checked_scaffold(scaffold),
            evaluation_hooks=_checked_hooks(evaluation_hooks),
            prediction_hooks=_checked_hooks(prediction_hooks),
        )
        spec._check_graph()
        return spec

    def _check_graph(self) -> None:
        graph = get_default_graph()
        predictions = self.predictions
        named = predictions if isinstance(predictions, Mapping) else {"predictions": predictions}
        for name, item in [("loss", self.loss), ("train_op", self.train_op), *named.items()]:
            if item is not None and item.graph is not graph:
                raise ValueError(
                    f"{name} ({item!r}) must be from the default graph: model_fn must build "
                    "its nodes in the graph that is the default when it is called"
                )


def _checked_predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError(
                f"Missing predictions. In mode {mode!r} return EstimatorSpec(mode, "
                "predictions={'prediction': tensor}), tensors with one row per row of the features"
            )
        return {}
    if isinstance(predictions, Mapping):
        return {name: _tensor(item, f"predictions[{name!r}]") for name, item in predictions.items()}
    if isinstance(predictions, list | tuple):
        raise TypeError(
            f"predictions must be Tensor, given: {predictions!r}; several have names: "
            "predictions={'prediction': ..., 'probability': ...}"
        )
    return _tensor(predictions, "predictions")


def _checked_loss(loss: Any, mode: str) -> Tensor | None:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError(
                f"Missing loss. In mode {mode!r} return EstimatorSpec(mode, loss=loss, "
                "train_op=train_op), where loss is a scalar tensor, such as the mean over the batch"
                if mode == ModeKeys.TRAIN
                else f"Missing loss. In mode {mode!r} return EstimatorSpec(mode, loss=loss, "
                "eval_metric_ops=metrics), where loss is a scalar tensor"
            )
        return None
    tensor = _tensor(loss, "loss")
    if tensor.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {tensor}")
    if tensor.shape.ndims not in (None, 0):
        tensor = arrays.reshape(tensor, [])
    return tensor


def _checked_train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError(
                "Missing train_op. In mode 'train' return EstimatorSpec(mode, loss=loss, "
                "train_op=train_op), where train_op = tf.train.AdamOptimizer(0.001).minimize(loss, "
                "global_step=tf.train.get_or_create_global_step())"
            )
        return None
    if not isinstance(train_op, Operation | Symbolic):
        advice = "; call its minimize(loss)" if hasattr(train_op, "apply_gradients") else ""
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op!r}{advice}")
    return train_op


def _checked_metrics(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics!r}")
    for name, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
                f"{pair!r} for key: {name}"
            )
        for part in pair:
            if not isinstance(part, Operation | Symbolic):
                raise TypeError(
                    f"metric_value and update_op must be Tensor or Operation, given: {part!r} for "
                    f"key: {name}"
                )
    return dict(metrics)


def _checked_outputs(outputs: Any) -> Mapping[str, Any] | None:
    if outputs is None:
        return None
    if not isinstance(outputs, Mapping):
        raise TypeError(f"`export_outputs` must be dict, given: {outputs}")
    for name, output in outputs.items():
        if not isinstance(output, ExportOutput):
            raise TypeError(
                "Values in `export_outputs` must be ExportOutput objects. "
                f"Given: {output} for key: {name}"
            )
    return dict(outputs)


def _checked_hooks(hooks: Sequence[Any] | None) -> tuple[Any, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(
                "All hooks returned by EstimatorSpec must be SessionRunHook instances. "
                f"Got {type(hook)} in place of one"
            )
    return found


def _checked_scaffold(scaffold: Any) -> Scaffold | None:
    if scaffold is not None and not isinstance(scaffold, Scaffold):
        raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
    return scaffold


def _tensor(item: Any, name: str) -> Tensor:
    if not isinstance(item, Symbolic):
        raise TypeError(f"{name} must be Tensor, given: {item!r}")
    return item._to_tensor()
