"""The rows of the parameter table, by topic; no pyspark."""
