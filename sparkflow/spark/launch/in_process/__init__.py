"""Training with one worker inside its Spark task: no sockets, no processes, no barrier job.

For compute whose Python workers are locked in (ADR 0038). `probe` asks whether they are, `fit` uses
`client`; `task` runs in the task, where `one_task` replaces the cluster.
"""
