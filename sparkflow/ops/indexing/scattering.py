"""Slices set, added or compared where vectors of coordinates point."""

from __future__ import annotations

from sparkflow._generated.ops.indexing.scattering import *  # noqa: F403
from sparkflow._generated.ops.indexing.scattering import (
    tensor_scatter_add,
    tensor_scatter_max,
    tensor_scatter_min,
    tensor_scatter_sub,
    tensor_scatter_update,
)

tensor_scatter_nd_update = tensor_scatter_update
tensor_scatter_nd_add = tensor_scatter_add
tensor_scatter_nd_sub = tensor_scatter_sub
tensor_scatter_nd_min = tensor_scatter_min
tensor_scatter_nd_max = tensor_scatter_max
