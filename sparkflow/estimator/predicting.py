"""Choosing predictions, and yielding them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkflow.graph.graph import Graph


def chosen(predictions: Any, keys: Any) -> Any:
    """The predictions of those names; all where none are named.

    Raises:
        ValueError: Predictions have no names, or none of these.
    """
    if not keys:
        return predictions
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    wanted = [keys] if isinstance(keys, str) else list(keys)
    found = {name: each for name, each in predictions.items() if name in wanted}
    if not found:
        raise ValueError(
            f"Expected to run at least one output from {sorted(predictions)}, provided {wanted}."
        )
    return found


def batches(graph: Graph, session: Any, predictions: Any, single: bool) -> Iterator[Any]:
    """Yields what runs give until the input ends; closes the session then, or when it is left.

    Args:
        graph: The default graph while the session and its hooks work, but not between.
        session: A monitored session.
        predictions: What is run.
        single: Whether examples are yielded, or batches.

    Raises:
        ValueError: Predictions differ in length.
    """
    with _Inside(graph, session):
        while True:
            with graph.as_default():
                if session.should_stop():
                    break
                values = session.run(predictions)
            if not single:
                yield values
            elif isinstance(values, Mapping):
                for index in range(_length(values)):
                    yield {name: each[index] for name, each in values.items()}
            else:
                yield from values


class _Inside:
    """Enters and leaves a session with a graph as the default one, which it is not between."""

    def __init__(self, graph: Graph, session: Any) -> None:
        self._graph = graph
        self._session = session

    def __enter__(self) -> None:
        with self._graph.as_default():
            self._session.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        with self._graph.as_default():
            left: bool | None = self._session.__exit__(*raised)
        return left


def _length(values: Mapping[str, Any]) -> int:
    length: int | None = None
    for name, each in values.items():
        length = len(each) if length is None else length
        if len(each) != length:
            raise ValueError(
                "Batch length of predictions should be same. "
                f"{name} has different batch length than others."
            )
    return length or 0
