"""Files and values that the driver and the executors both reach."""
