"""Data sources of Spark: `tfrecord` (`data_source.TFRecordDataSource`).

`wire` knows protobuf's encoding of many numbers at once, `decoding` turns records of
`tf.train.Example` into Arrow columns, `encoding` columns into records, `schema` finds and checks
Spark schemas, `files` knows where the files are and how a write is committed. Only
`data_source` and `schema` import pyspark.
"""
