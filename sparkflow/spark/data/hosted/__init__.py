"""Rows of DataFrames as datasets of programs: sent to the processes and batched there."""
