"""Ops for communication between tasks: transfers, collectives, rounds of gradients."""
