"""What checkpoints are made of on the client: saveables, nodes, state files, readers."""
