"""What Spark's own exceptions come down to."""

from sparkflow.spark.cluster.barrier_job import describe_spark_failure

OF_A_TASK = """An error occurred while calling o98.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 3.0 failed: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
    process()
ModuleNotFoundError: No module named 'sparkflow'

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
	at java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_the_traceback_of_a_task_is_cut_out() -> None:
    text = describe_spark_failure(RuntimeError(OF_A_TASK))
    assert text.startswith("Traceback (most recent call last):\n")
    assert "ModuleNotFoundError: No module named 'sparkflow'\nThe executors' Python has no" in text
    assert "org.apache" not in text


def test_other_failures_lose_the_stack() -> None:
    error = RuntimeError("Job 3 cancelled part of cancelled job group g\n\tat org.apache.X")
    assert describe_spark_failure(error) == "Job 3 cancelled part of cancelled job group g"
