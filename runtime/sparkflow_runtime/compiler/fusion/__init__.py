"""Fusion: selects the nodes of a partition that become one kernel, and builds it."""
