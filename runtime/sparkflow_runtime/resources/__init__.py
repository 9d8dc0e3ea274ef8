"""What outlives a step on a task: variables, accumulators, queues, batch sources."""
