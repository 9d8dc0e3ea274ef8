"""Training on Spark Connect, where the client has no JVM and cannot reach executors.

`fit` uses `client`; `job` submits the barrier job and reads its result rows; `connect_task` runs in
its tasks; `chief` is the process next to task 0 that leads training, with `lead`; `outcome` is its
result. `storage.connect_files` writes and reads through executors, `storage.artifacts` sends large
values to them.
"""
