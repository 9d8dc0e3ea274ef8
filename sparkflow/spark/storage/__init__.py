"""Files and values that both the driver and the executors can access."""
