"""Properties of a node besides its inputs: name, attributes, definition, source line."""
