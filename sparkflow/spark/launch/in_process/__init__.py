"""Training with one worker inside its Spark task: no sockets, no processes, no barrier job.

For compute whose Python workers are locked in (ADR 0038). `probe` asks whether they are, `client`
is what `fit` uses, `task` is what runs in the task, and `one_task` stands there for the cluster.
"""
