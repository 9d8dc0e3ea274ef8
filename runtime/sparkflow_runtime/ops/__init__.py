"""One op, one place: attributes, shape inference, gradient and kernels, one file per family.

Importing `sparkflow_runtime.ops.all` fills the registry.
"""
