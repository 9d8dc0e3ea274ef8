"""The graph as data: Graph, Operation, Tensor, shapes, scopes and conversion of Python values.

Nothing here computes. Import the modules; nothing is re-exported, because `sparkflow` does that.
"""
