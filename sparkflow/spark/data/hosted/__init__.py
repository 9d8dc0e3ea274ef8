"""Rows of DataFrames as datasets in programs: sent to the processes and batched there."""
