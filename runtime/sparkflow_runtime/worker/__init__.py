"""Runs partitions: registers, compiles and executes what a master sends to this task."""
