"""What users are told who misspell a parameter or pass a wrong value: (call, words)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sparkflow.spark import (
    SparkDNNClassifier,
    SparkTrainer,
    SparkTrainerClassifier,
    SparkTrainerModel,
    SparkWideDeepClassifier,
)


def trainer(**params: Any) -> SparkTrainer:
    return SparkTrainer(model_fn=lambda features: None, **params)


def assign(name: str) -> None:
    setattr(trainer(), name, 3)


CASES: dict[str, tuple[Any, type[Exception], str]] = {
    "constructor": (lambda: trainer(batchsise=3), TypeError, "'batchsise'. Did you mean batchSize"),
    "case": (lambda: trainer(Batchsize=3), TypeError, r"Did you mean batchSize\?"),
    "snake case": (lambda: trainer(num_worker=3), TypeError, "Did you mean numWorkers"),
    "of the model": (
        lambda: trainer(learningRate=0.1),
        TypeError,
        r"no parameter 'learningRate'\. What model_fn has to know goes into modelParams={",
    ),
    "setParams": (lambda: trainer().setParams(epoch=3), TypeError, r"Did you mean epochs\?"),
    "setter": (lambda: trainer().setBatchSise(3), AttributeError, "Did you mean setBatchSize"),
    "getter": (lambda: trainer().getEpoch(), AttributeError, "Did you mean getEpochs"),
    "attribute": (lambda: trainer().batchsize, AttributeError, r"Did you mean batchSize\?"),
    "assignment": (lambda: assign("batchSize"), AttributeError, r"setBatchSize\(3\)"),
    "assignment in snake case": (lambda: assign("batch_size"), AttributeError, r"batchSize=3"),
    "map": (lambda: trainer().copy({"epoch": 3}), TypeError, r"Did you mean epochs\?"),
    "ready-made": (
        lambda: SparkDNNClassifier(hiddenunits=[3]),
        TypeError,
        r"Did you mean hiddenUnits\?",
    ),
    "wide": (lambda: SparkWideDeepClassifier(deepcol=["a"]), TypeError, "Did you mean deepCols"),
    "optimizer": (
        lambda: SparkDNNClassifier(optimizer="Adamm"),
        ValueError,
        "must be one of .*Adam, .*SGD.* Did you mean 'Adam'",
    ),
    "activation": (lambda: SparkDNNClassifier(activation="gelu"), ValueError, "one of relu, tanh"),
    "mode": (lambda: trainer(syncMode="all_reduce"), ValueError, "Did you mean 'allreduce'"),
    "resume": (lambda: trainer(resume="yes"), ValueError, "one of auto, always, never"),
    "arguments": (
        lambda: SparkTrainer(model_fn=lambda x, y: None),
        TypeError,
        r"model_fn\(x, y\) takes y, which it is not given.*features, labels=\.\.\., mode=",
    ),
    "no arguments": (
        lambda: SparkTrainer(model_fn=lambda: None),
        TypeError,
        "takes no argument for the features",
    ),
    "no function": (lambda: SparkTrainer(model_fn=3), TypeError, "must be a function, got 3"),
    "network": (
        lambda: SparkTrainerClassifier(network=lambda x, labels: None),
        TypeError,
        r"takes labels, which it is not given.*num_classes",
    ),
    "pandas": (lambda: trainer().fit(pd.DataFrame()), TypeError, r"pandas.*spark\.createDataFrame"),
    "arrow": (lambda: trainer().fit(pa.table({})), TypeError, r"pyarrow.*spark\.createDataFrame"),
    "numpy": (lambda: trainer().fit(np.ones(3)), TypeError, r"numpy.*spark\.createDataFrame"),
    "list": (
        lambda: trainer().fit([1]),
        TypeError,
        r"got a list: create one .*spark\.createDataFrame",
    ),
    "path": (lambda: trainer().fit("/x"), TypeError, r"spark\.read\.parquet\('/x'\).*fitOnParquet"),
    "maps": (lambda: trainer().fitMultiple([1], []), TypeError, r"spark\.createDataFrame"),
    "transform": (
        lambda: SparkTrainerModel().transform(pd.DataFrame()),
        TypeError,
        r"transform takes a Spark DataFrame.*spark\.createDataFrame",
    ),
    "no path": (
        lambda: trainer().fitOnParquet(3),
        TypeError,
        "the path or URI of one file.*got int; fit",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_errs_is_told_what_to_do(name: str) -> None:
    call, kind, words = CASES[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        call()


def test_spellings_that_can_be_understood_are() -> None:
    assert SparkDNNClassifier(optimizer="adam", activation="ReLU").getOptimizer() == "Adam"
    assert trainer(syncMode="AllReduce").getSyncMode() == "allreduce"
    assert trainer().copy({"batch_size": 3, "epochs": 2}).getBatchSize() == 3
    assert trainer(resume=True).getResume() == "auto"
    assert trainer(resume=False).getResume() == "never"


def test_functions_of_all_kinds_are_taken() -> None:
    class Network:
        def __call__(self, features: Any, mode: str = "") -> None: ...

    def default(x: Any, units: int = 3) -> None: ...

    def everything(*args: Any, **kwargs: Any) -> None: ...

    def by_name(features: Any, *, labels: Any, mode: str) -> None: ...

    for function in (Network(), default, everything, by_name, max):
        SparkTrainer(model_fn=function)
