"""sparkflow's back end: executes graphs.

It receives graphs as protobuf messages, places and partitions them over devices and tasks, compiles
each partition and runs it, and moves tensors between tasks. It does not know how a graph was made:
the front end is the package `sparkflow`, which this one never imports, and neither does it import
pyspark. Nothing is re-exported here, because importing the package must not load its rooms; import
the module that you need, for example `sparkflow_runtime.errors`.
"""
