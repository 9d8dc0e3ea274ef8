"""What tasks do with their rows: write them as Arrow files, map them, feed batches; no pyspark."""
