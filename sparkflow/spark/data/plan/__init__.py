"""The driver's handling of rows: columns, checks, distribution to tasks."""
