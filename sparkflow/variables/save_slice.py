"""Which part of a partitioned variable a variable is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow_runtime.protos import variable_pb2


class SaveSliceInfo:
    """A part of a larger variable, as savers write it.

    Args:
        full_name: The name of the whole.
        full_shape: Its shape.
        var_offset: Where the part begins, per axis.
        var_shape: The shape of the part.
        save_slice_info_def: A message to take all of these from.
        import_scope: A prefix of the name in the message.
    """

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Sequence[int] | None = None,
        var_offset: Sequence[int] | None = None,
        var_shape: Sequence[int] | None = None,
        save_slice_info_def: variable_pb2.SaveSliceInfoDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        message = save_slice_info_def
        if message is not None:
            prefix = f"{import_scope}/" if import_scope else ""
            self.full_name: str | None = prefix + message.full_name
            self.full_shape: Sequence[int] | None = list(message.full_shape)
            self.var_offset: Sequence[int] | None = list(message.var_offset)
            self.var_shape: Sequence[int] | None = list(message.var_shape)
        else:
            self.full_name = full_name
            self.full_shape = full_shape
            self.var_offset = var_offset
            self.var_shape = var_shape

    @property
    def spec(self) -> str:
        """The part as checkpoints name it: `10 4 0,5:0,4`."""
        full = " ".join(str(size) for size in self.full_shape or ())
        pairs = zip(self.var_offset or (), self.var_shape or (), strict=True)
        return f"{full} " + ":".join(f"{offset},{size}" for offset, size in pairs)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The part as a message, None where it is outside `export_scope`."""
        name = self.full_name or ""
        if export_scope is not None:
            prefix = f"{export_scope.rstrip('/')}/"
            if not name.startswith(prefix):
                return None
            name = name.removeprefix(prefix)
        return variable_pb2.SaveSliceInfoDef(
            full_name=name,
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )
