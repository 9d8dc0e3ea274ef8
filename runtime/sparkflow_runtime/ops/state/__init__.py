"""Ops on what outlives a step: variables, queues, tables, accumulators."""
