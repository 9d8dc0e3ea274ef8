"""Ops that reduce or scan along axes."""
