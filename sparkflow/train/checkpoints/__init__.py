"""The client's part of checkpoints: saveables, nodes, state files, readers."""
