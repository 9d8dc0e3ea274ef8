"""Running a model inside Spark's Python workers: Arrow arrays in, Arrow arrays out.

Nothing here needs the driver. A model is compiled once per Python worker and kept for the worker's
later tasks; batches are split or joined to the model's batch size.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from sparkflow.export import InferenceModel, Predictor
from sparkflow.spark.data.schema.row_schema import NANS, InputColumns, RowSchema
from sparkflow.spark.model.outputs import OutputColumn, to_arrow, to_vectors
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.resources.datasets.arrow_columns import Array, Mask

ERROR, SKIP, KEEP, FILL = "error", "skip", "keep", "fill"

VALID: Final = "__sparkflow_valid"
"""The field that is true for predicted rows, if others may be skipped or kept.

The struct of the others is null; but pandas, which Spark before 4.1 uses, has no null structs, only
structs of nulls.
"""

_CACHED_MODELS: Final = 4
_cache: OrderedDict[tuple[str, Place], Predictor] = OrderedDict()
_cache_lock = threading.Lock()  # guards _cache


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """The work of the Python workers of one `transform`.

    Attributes:
        key: The key of the model, the same in all its plans.
        inputs: How the inputs are sent, in the model's order.
        outputs: The fields of the struct that is returned.
        batch_size: Rows per run of the graph.
        handle_invalid: How rows with nulls or NaNs are handled: `error`; `skip` and `keep` return a
            null struct; `fill` replaces the values by `fill_value`.
        fill_value: See `handle_invalid`.
        gives_vectors: Whether vector outputs are returned as vectors; otherwise as lists.
    """

    key: str
    inputs: tuple[InputColumns, ...]
    outputs: tuple[OutputColumn, ...]
    batch_size: int
    handle_invalid: str = ERROR
    fill_value: float = 0.0
    gives_vectors: bool = False

    @property
    def marks_valid(self) -> bool:
        """Whether the struct has the field `VALID`."""
        return self.handle_invalid in (SKIP, KEEP)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model runs in this process.

    Attributes:
        device: A device such as `/device:GPU:0`; empty for the runtime's choice.
        threads: The threads for kernels and BLAS; 0 keeps the process's setting.
    """

    device: str = ""
    threads: int = 0


def predict_batches(
    plan: InferencePlan, predictor: Predictor, batches: Iterable[Sequence[pa.Array]]
) -> Iterator[pa.Array]:
    """Yields struct arrays of predictions, in the order of the rows.

    Batches smaller than the plan's batch size are joined, so fewer may be returned than were
    passed.

    Args:
        plan: The work to do.
        predictor: The model.
        batches: The arrays of all inputs, one after another, of each batch.

    Raises:
        InvalidArgumentError: There are nulls or NaNs and `handle_invalid` is `error`, or rows
            differ in length from those that the model was trained on.
    """
    for arrays in _joined(batches, plan.batch_size):
        yield _predict(plan, predictor, arrays)


def _joined(batches: Iterable[Sequence[pa.Array]], batch_size: int) -> Iterator[Sequence[pa.Array]]:
    waiting: list[Sequence[pa.Array]] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch[0])
        if rows >= batch_size:
            yield _concatenated(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _concatenated(waiting)


def _concatenated(waiting: Sequence[Sequence[pa.Array]]) -> Sequence[pa.Array]:
    if len(waiting) == 1:
        return waiting[0]
    return [pa.concat_arrays(parts) for parts in zip(*waiting, strict=True)]


def _predict(plan: InferencePlan, predictor: Predictor, arrays: Sequence[pa.Array]) -> pa.Array:
    rows = len(arrays[0])
    # Parts of equal size, so that no short one is left over and shapes repeat. Zero rows make one
    # part, for the shapes of the outputs.
    parts = max(-(-rows // plan.batch_size), 1)
    step = max(-(-rows // parts), 1)
    found: dict[str, list[Array]] = {each.output: [] for each in plan.outputs}
    invalid: list[Mask] = []
    for start in range(0, max(rows, 1), step):
        part = [array.slice(start, step) for array in arrays]
        fed, mask = _decoded(plan, part)
        invalid.append(np.zeros(len(part[0]), bool) if mask is None else mask)
        for name, value in predictor.run(fed).items():
            if name in found:
                _require_rows(name, value, len(part[0]))
                found[name].append(value)
    columns = [_column(plan, each, found[each.output]) for each in plan.outputs]
    mask = np.concatenate(invalid)
    names = [each.output for each in plan.outputs]
    if plan.marks_valid:
        columns.append(pa.array(~mask))
        names.append(VALID)
    return pa.StructArray.from_arrays(columns, names, mask=pa.array(mask) if mask.any() else None)


def _require_rows(name: str, value: Array, rows: int) -> None:
    """Checks that there is a row of predictions for each row.

    Raises:
        InvalidArgumentError: There is not.
    """
    if rows and (not np.ndim(value) or len(value) != rows):
        raise InvalidArgumentError(
            message=f"The prediction {name!r} of model_fn has shape {np.shape(value)} for {rows} "
            "rows: it must have one row per row of the features"
        )


def _column(plan: InferencePlan, output: OutputColumn, parts: list[Array]) -> pa.Array:
    # In lists, rows of one run may be wider than those of another, such as its longest sequence.
    if len({part.shape[1:] for part in parts}) == 1:
        parts = [_whole(parts)]
    arrays = [to_arrow(part, output) for part in parts]
    values = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    return to_vectors(values) if output.is_vector and plan.gives_vectors else values


def _decoded(plan: InferencePlan, arrays: Sequence[pa.Array]) -> tuple[list[Array], Mask | None]:
    fed: list[Array] = []
    invalid: Mask | None = None
    schema = RowSchema(plan.inputs, NANS, plan.fill_value if plan.handle_invalid == FILL else None)
    for each, decoded in zip(plan.inputs, schema.decode(arrays), strict=True):
        fed += decoded.components()
        if decoded.invalid is None:
            continue
        if plan.handle_invalid == ERROR:
            raise InvalidArgumentError(
                message=f"{int(decoded.invalid.sum())} of {len(decoded.invalid)} rows of a batch "
                f"hold nulls or NaNs in the features column {each.describe()}. Replace them before "
                "transform, or set the model's handleInvalid to 'skip' (drop these rows), 'keep' "
                "(null predictions) or 'fill' (with fillValue)"
            )
        invalid = decoded.invalid if invalid is None else invalid | decoded.invalid
    return fed, invalid


def _whole(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def predictor_for(key: str, place: Place, load: Callable[[], InferenceModel]) -> Predictor:
    """Returns the predictor of a model in this process, created at the first call and cached.

    Args:
        key: The key of the model.
        place: Where it runs.
        load: Loads the model; called only if it is not cached.
    """
    with _cache_lock:
        predictor = _cache.get((key, place))
        if predictor is None:
            predictor = load().predictor(place.device, place.threads)
            _cache[key, place] = predictor
            while len(_cache) > _CACHED_MODELS:
                _cache.popitem(last=False)[1].close()
        _cache.move_to_end((key, place))
        return predictor
