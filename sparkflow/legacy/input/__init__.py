"""Input pipelines made of queues: producers of what is read, batches of what was read."""
