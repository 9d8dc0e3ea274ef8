"""The tensor channel: carries tensors and step calls between tasks over dedicated sockets."""
