"""Ops that tasks work together by: transfers, collectives, rounds of gradients."""
