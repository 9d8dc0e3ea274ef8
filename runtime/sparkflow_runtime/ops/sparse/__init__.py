"""Ops on sparse tensors, and on rows as sets."""
