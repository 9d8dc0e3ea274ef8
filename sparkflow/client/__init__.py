"""What a client sees of a run and of its machine: time lines and devices."""
