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

    `lock` guards `array`: whoever updates holds it. Readers take `array` without the lock and may
    see an update half done when steps run concurrently, as in TensorFlow (use_locking=False).

    Attributes:
        array: The current value; None until initialised.
        note_reshaped: Called when it gets a value that its shape does not allow.
        note_moved: Called after `array` has become another one, with the one before.
        allocate: Gives the memory for a value on the host, by shape and dtype.
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
        """Tells of another array, whoever sets it: peers may know where the last one is."""
        if name != "array":
            object.__setattr__(self, name, value)
            return
        left = getattr(self, "array", None)  # not free before others can know
        object.__setattr__(self, name, value)
        if left is not value:
            self.note_moved(left)

    def read(self) -> Any:
        """The current array, not a copy.

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
