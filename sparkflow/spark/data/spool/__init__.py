"""Rows as Arrow files that tasks write and their child processes map; no pyspark."""
