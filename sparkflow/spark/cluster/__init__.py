"""The barrier job: its tasks and their processes, registration, failures and shutdown."""
