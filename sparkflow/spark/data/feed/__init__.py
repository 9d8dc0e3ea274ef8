"""The feed: batches of a worker's rows, in the order of training; no pyspark."""
