"""Canned estimators: baseline, linear, deep, and both combined."""
