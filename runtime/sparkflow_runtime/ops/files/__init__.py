"""Ops that read and write files and records, and parse what is in them."""
