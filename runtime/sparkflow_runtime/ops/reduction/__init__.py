"""Ops that combine the elements along axes."""
