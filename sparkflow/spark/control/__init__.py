"""The driver's side of a training run. Never imports pyspark."""
