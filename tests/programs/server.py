"""One task of a cluster of workers: `server.py TASK HOST:PORT,HOST:PORT`."""

import sys

import sparkflow as tf

task_number = int(sys.argv[1])
cluster = tf.train.ClusterSpec({"local": sys.argv[2].split(",")})
server = tf.train.Server(cluster, job_name="local", task_index=task_number)
print(f"Starting server #{task_number}", flush=True)
server.join()
