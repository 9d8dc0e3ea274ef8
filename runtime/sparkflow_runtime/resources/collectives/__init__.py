"""Collectives at run time: the exchange between ranks, and the sums."""
