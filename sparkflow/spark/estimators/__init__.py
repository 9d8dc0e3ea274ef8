"""Estimators with a network or a head of their own, and several trainings over the same rows."""
