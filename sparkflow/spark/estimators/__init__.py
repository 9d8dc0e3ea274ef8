"""Estimators with a network or a head of their own."""
