"""Clusters for programs of the user's own: sessions from the driver, functions in the tasks."""
