"""Ops that take, put, find and sort elements by position or value."""
