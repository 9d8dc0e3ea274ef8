"""Where the two ends of an edge meet inside one task."""
