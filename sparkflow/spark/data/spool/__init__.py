"""The spool: Arrow files that tasks write and their child processes map; no pyspark."""
