"""Clusters for the user's own programs: sessions from the driver, functions in the tasks."""
