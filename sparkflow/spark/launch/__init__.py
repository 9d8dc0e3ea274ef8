"""Where a training is put together and started: on classic sessions and on Spark Connect."""
