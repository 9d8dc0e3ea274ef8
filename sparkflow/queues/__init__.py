"""Queues and their relatives: state on a task that steps put tensors into and take them out of."""
