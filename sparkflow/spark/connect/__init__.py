"""Training and models on Spark Connect, where the client has neither a JVM nor a way to executors.

`session` tells the two kinds of sessions apart, `files` writes and reads through executors,
`shipping` takes large values to them, `job` submits the barrier job and reads its result rows,
`task` is what runs in its tasks, `chief` the process beside task 0 that leads training there.
"""
