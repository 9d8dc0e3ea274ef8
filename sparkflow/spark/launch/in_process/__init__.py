"""Training with one worker inside its Spark task: no sockets, no processes, no barrier job.

For compute whose Python workers are isolated (ADR 0038). `probe` checks whether they are, `fit`
uses `client`; `task` runs in the task, where `one_task` replaces the cluster.
"""
