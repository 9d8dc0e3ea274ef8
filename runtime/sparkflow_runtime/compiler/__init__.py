"""The compiler: from a partition to a callable."""
