"""The tensor channel: tensors and the steps that make them, from task to task over own sockets."""
