"""The rows of a DataFrame on the driver: columns, checks, which task gets which."""
