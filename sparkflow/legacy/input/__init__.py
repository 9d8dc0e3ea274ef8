"""Input pipelines made of queues: producers of items to read, and batches of examples."""
