"""Static shapes: dimensions and shapes as the graph programmer sees them."""
