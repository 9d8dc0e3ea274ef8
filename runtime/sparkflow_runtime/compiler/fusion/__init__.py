"""Which nodes of a partition become one kernel, and what that kernel is."""
