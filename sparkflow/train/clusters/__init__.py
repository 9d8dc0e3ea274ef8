"""Servers, what a cluster consists of, and who places variables where."""
