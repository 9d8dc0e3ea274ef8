"""What a node has beside its inputs: name, attributes, definition, line of the program."""
