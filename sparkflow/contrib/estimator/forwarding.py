"""`forward_features`: an estimator whose predictions have features beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.export_outputs import PredictOutput
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.sparse.sparse_layout import sparse_tensor_to_dense


def forward_features(
    estimator: Estimator,
    keys: str | Iterable[str] | None = None,
    sparse_default_values: Mapping[str, Any] | None = None,
) -> Estimator:
    """An estimator with the same model and directory that returns features with its predictions.

    So that predictions can be told apart by a key of the examples, also those of an exported model.

    Args:
        estimator: The estimator; its predictions must have names.
        keys: The names of features; all when None.
        sparse_default_values: What stands for absent values of sparse features, by name; 0 or ""
            for others.

    Raises:
        TypeError: It is no estimator, or a name is no string.
        ValueError: While the model is built: there is no such feature, or a prediction has its
            name.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"estimator must be a tf.estimator.Estimator. Got: {estimator}")
    wanted = None if keys is None else [keys] if isinstance(keys, str) else list(keys)
    for key in wanted or ():
        if not isinstance(key, str):
            raise TypeError(f"All items in the given keys list should be a string. Got: {key!r}")
    defaults = dict(sparse_default_values or {})

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec: EstimatorSpec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.PREDICT:
            return spec
        if not isinstance(spec.predictions, Mapping):
            raise ValueError(f"Predictions should be a dictionary. Got: {spec.predictions}")
        forwarded = _chosen(features, wanted, defaults)
        taken = sorted(forwarded.keys() & spec.predictions.keys())
        if taken:
            raise ValueError(
                f"Features {taken} cannot be forwarded: there are predictions of these names. "
                f"Predictions: {sorted(spec.predictions)}"
            )
        outputs = {
            name: PredictOutput({**each.outputs, **forwarded})
            if isinstance(each, PredictOutput)
            else each
            for name, each in (spec.export_outputs or {}).items()
        }
        changed = {
            "predictions": {**spec.predictions, **forwarded},
            "export_outputs": outputs or None,
        }
        return EstimatorSpec(**{**spec._asdict(), **changed})

    return Estimator(model_fn, estimator.model_dir, estimator.config)


def _chosen(
    features: Mapping[str, Any], keys: list[str] | None, defaults: Mapping[str, Any]
) -> dict[str, Tensor]:
    found = {}
    for key in sorted(features) if keys is None else keys:
        if key not in features:
            raise ValueError(
                f'There is no feature "{key}" to forward. Features: {sorted(features)}'
            )
        feature = features[key]
        if isinstance(feature, SparseTensor):
            given = {"default_value": defaults[key]} if key in defaults else {}
            feature = sparse_tensor_to_dense(feature, **given)
        found[key] = convert_to_tensor(feature)
    return found
