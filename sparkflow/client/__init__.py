"""Time lines of runs and the devices of this machine."""
