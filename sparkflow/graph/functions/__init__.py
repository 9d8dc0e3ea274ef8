"""Bodies of functions: under construction, or imported."""
