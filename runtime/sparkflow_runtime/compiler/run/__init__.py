"""Other ways to run a program than by its plan: immediately, on a stream, traced."""
