"""Rows of DataFrames as datasets of programs: brought to the processes, drawn in batches there."""
