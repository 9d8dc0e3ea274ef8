"""Training on Spark Connect, where the client has neither a JVM nor a way to executors.

`client` is what `fit` uses, `job` submits the barrier job and reads its result rows, `task` is
what runs in its tasks, `chief` the process beside task 0 that leads training there, by `lead`;
`outcome` is what it brings back. `storage.connect_files` writes and reads through executors,
`storage.artifacts` takes large values to them.
"""
