"""Collectives at run time: who sends what to whom, and the sums."""
