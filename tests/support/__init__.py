"""Shared by our own tests: ops as table rows, fakes of GPUs, random graphs, damaged files."""
