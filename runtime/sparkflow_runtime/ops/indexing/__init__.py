"""Ops that gather, scatter, find and sort elements by position or value."""
