"""The processes of tasks: start, communication, end and restart."""
