"""One op, one place: attributes, shape inference, gradient and kernels, one file per family.

`registry` imports the module of an op when the op is first used.
"""
