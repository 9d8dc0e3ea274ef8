"""File ops. The files are on the host that runs the op, or at URIs that it can access.

Clients that may run graphs on a server access files with the rights of its process, as in
TensorFlow: the server's token protects against that.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.files import system
from sparkflow_runtime.ops.op import FILES, Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.strings.string_arrays import StringOp, array_of, scalar_text, strings_of
from sparkflow_runtime.shapes import Shape


@register
class ReadFile(StringOp):
    """The contents of a file."""

    inputs = "filename: string"
    outputs = "contents: string"
    reaches = frozenset({FILES})
    paths = ("filename",)
    stateful = True  # a file changes between steps: it is not folded into the graph

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        node.with_rank(0, 0, "Shape")
        return [shapes.SCALAR]

    def compute(self, xp: Any, filename: Array) -> Array:
        """Fails if the file cannot be read."""
        return array_of([system.read_file(scalar_text(filename, "filename"))], ())


@register
class WriteFile(StringOp):
    """Writes a file; creates missing directories."""

    inputs = "filename: string, contents: string"
    reaches = frozenset({FILES})
    stateful = True

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs."""
        node.with_rank(0, 0, "Shape")
        node.with_rank(1, 0, "Shape")
        return []

    def compute(self, xp: Any, filename: Array, contents: Array) -> None:
        """Fails if the file cannot be written."""
        path = system.as_text(scalar_text(filename, "Input filename tensor"))
        folder = os.path.dirname(path)
        if folder and not system.is_directory(folder):
            system.make_dirs(folder)
        with system.open_file(path, "wb") as stream:
            stream.write(scalar_text(contents, "Contents tensor"))


@register
class MatchingFiles(StringOp):
    """The paths that match patterns, sorted."""

    copyable = True
    inputs = "pattern: string"
    outputs = "filenames: string"
    reaches = frozenset({FILES})
    stateful = True

    def infer(self, node: Inference) -> list[Shape]:
        """A vector."""
        shape = node.shapes[0]
        if shape is not None and len(shape) > 1:
            node.with_rank(0, 1, "Shape")
        return [(None,)]

    def compute(self, xp: Any, pattern: Array) -> Array:
        """See `files.system.glob` for patterns."""
        found = sorted(path for each in strings_of(np.ravel(pattern)) for path in system.glob(each))
        return array_of([os.fsencode(path) for path in found], (len(found),))
