"""Estimators whose models are ready-made: linear, deep, both, and baselines."""
