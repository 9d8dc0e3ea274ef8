"""The barrier job: its tasks and their processes, where they register, how they fail and end."""
