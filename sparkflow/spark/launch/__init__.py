"""Assembly and start of a training, on classic sessions and on Spark Connect."""
