"""Assembles and starts a training, on classic sessions and on Spark Connect."""
