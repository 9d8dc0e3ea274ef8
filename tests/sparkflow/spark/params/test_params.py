"""Parameters: checked when set, in both spellings, copied as Spark ML copies them."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkflow.spark.params.row import camel_case

pytestmark = pytest.mark.spark  # pyspark.ml's Params need no session, but pyspark


def model_fn(features: Any) -> Any:
    raise NotImplementedError


def _trainer(**params: Any) -> Any:
    from sparkflow.spark import SparkTrainer

    return SparkTrainer(model_fn=model_fn, **params)


def test_both_spellings_are_one_parameter() -> None:
    trainer = _trainer(num_workers=3, featuresCol=["a", "b"])
    assert trainer.getNumWorkers() == 3
    assert trainer.num_workers is trainer.numWorkers
    assert trainer.getFeaturesCol() == ["a", "b"]
    assert trainer.setParams(batch_size=7).getBatchSize() == 7
    assert camel_case("inference_batch_size") == "inferenceBatchSize"


def test_defaults_are_stable_and_documented() -> None:
    first, second = _trainer(), _trainer()
    assert first.getSeed() == second.getSeed() == 42
    assert first.uid != second.uid
    for param in first.params:
        assert param.doc, param.name
        assert first.isDefined(param), param.name
        getter = getattr(first, f"get{param.name[0].upper()}{param.name[1:]}")
        setter = getattr(first, f"set{param.name[0].upper()}{param.name[1:]}")
        assert setter(getter()) is first


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        ({"numWorkers": 0}, ValueError, "numWorkers: must be at least 1, got 0"),
        ({"num_ps": -1}, ValueError, "numPs: must be at least 0, got -1"),
        ({"batchSize": 2.5}, TypeError, "batchSize: an integer is needed, got 2.5"),
        ({"epochs": True}, TypeError, "epochs: an integer is needed, got True"),
        (
            {"syncMode": "fast"},
            ValueError,
            "syncMode: must be one of async, sync, ssp, allreduce, got 'fast'",
        ),
        ({"featuresCol": []}, ValueError, "featuresCol: a list of columns has one or more names"),
        ({"featuresCol": ["a", "a"]}, ValueError, "featuresCol: a list of columns .* none twice"),
        ({"featuresCol": {}}, ValueError, "featuresCol: a dictionary of inputs needs at least one"),
        ({"featuresCol": {"x": []}}, ValueError, "featuresCol: input 'x': a list of columns has"),
        (
            {"featuresCol": {"": "a"}},
            TypeError,
            "featuresCol: the name of an input must be a string",
        ),
        ({"inputShapes": {"x": [None, 2]}}, ValueError, r"inputShapes: .* written \[None\]"),
        ({"inputShapes": {"x": 3}}, TypeError, "inputShapes: a shape is a list of integers, got 3"),
        ({"inputShapes": {"x": [0]}}, ValueError, "inputShapes: must be at least 1, got 0"),
        ({"vectorFormat": "csr"}, ValueError, "vectorFormat: must be one of auto, dense, sparse"),
        ({"labelCol": 3}, TypeError, "labelCol: the name of a column must be a string, got 3"),
        ({"labelCol": ""}, ValueError, "labelCol: the name of a column is empty"),
        ({"startTimeout": 0}, ValueError, "startTimeout: must be more than 0 seconds"),
        ({"modelParams": {"f": print}}, TypeError, "modelParams: .* representable in JSON"),
        ({"modelParams": [1]}, TypeError, "modelParams: a dictionary with strings as keys"),
        ({"shuffle": 1}, TypeError, "shuffle: True or False is needed, got 1"),
        (
            {"numWorker": 2},
            TypeError,
            r"has no parameter 'numWorker'\. Did you mean numWorkers\?$",
        ),
        (
            {"learningRate": 2},
            TypeError,
            r"goes into modelParams={'learningRate': \.\.\.}\. It has allowNonFinite",
        ),
        ({"numPs": 1, "num_ps": 1}, TypeError, "the parameter 'numPs' is given twice"),
    ],
)
def test_wrong_values_fail_at_once(
    params: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        _trainer(**params)


def test_model_fn_must_be_a_function() -> None:
    from sparkflow.spark import SparkTrainer

    with pytest.raises(TypeError, match="model_fn must be a function, got 3"):
        SparkTrainer(model_fn=3)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError):
        SparkTrainer(model_fn)  # type: ignore[misc]  # keywords only


def test_copies_keep_the_function_and_take_extra_params() -> None:
    trainer = _trainer(epochs=3)
    copy = trainer.copy({trainer.epochs: 5, trainer.num_workers: 2})
    assert copy.uid == trainer.uid
    assert copy.model_fn is model_fn
    assert (copy.getEpochs(), copy.getNumWorkers()) == (5, 2)
    assert (trainer.getEpochs(), trainer.getNumWorkers()) == (3, 1)
    with pytest.raises(AttributeError, match="no attribute 'num_wrokers'"):
        trainer.num_wrokers  # noqa: B018 - looking it up is the test


def test_explain_params(spark: SparkSession) -> None:
    assert "numWorkers: number of tasks that compute gradients" in _trainer().explainParams()
