"""A mutable array with a name: what `VariableV2` refers to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sparkflow_runtime.device.host_memory import aligned_empty
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.shapes import Shape


class Variable:
    """The state behind a reference tensor.

    `lock` guards `array` and is held during updates. Readers use `array` without the lock and may
    see a partial update if steps run concurrently, as in TensorFlow (use_locking=False).

    Attributes:
        array: The current value; None until initialised.
        note_reshaped: Called if it gets a value that its shape does not allow.
        note_moved: Called after `array` was replaced, with the old array.
        allocate: Allocates memory for a value on the host, by shape and dtype.
    """

    __slots__ = (
        "allocate",
        "array",
        "dtype",
        "lock",
        "name",
        "note_moved",
        "note_reshaped",
        "shape",
    )

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.note_moved: Callable[[Any], None] = lambda left: None
        self.array: Any = None
        self.lock = threading.Lock()
        self.note_reshaped: Callable[[], None] = lambda: None
        self.allocate: Callable[..., Any] = aligned_empty

    def __setattr__(self, name: str, value: object) -> None:
        """Reports a replaced array, since peers may know the old one's location."""
        if name != "array":
            object.__setattr__(self, name, value)
            return
        left = getattr(self, "array", None)  # not freed before others can know
        object.__setattr__(self, name, value)
        if left is not value:
            self.note_moved(left)

    def read(self) -> Any:
        """Returns the current array, not a copy.

        Raises:
            FailedPreconditionError: Nothing was assigned yet.
        """
        array = self.array
        if array is None:
            raise FailedPreconditionError(
                message=f"Attempting to use uninitialized value {self.name}; "
                "run its initializer (for instance tf.global_variables_initializer()) first"
            )
        return array
