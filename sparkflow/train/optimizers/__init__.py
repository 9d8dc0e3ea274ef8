"""Optimizers, their slots and schedules, and averages of variables."""
