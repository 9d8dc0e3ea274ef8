"""One training run as its driver sees it. Never imports pyspark."""
