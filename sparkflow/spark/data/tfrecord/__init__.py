"""The Spark data source `tfrecord` (`data_source.TFRecordDataSource`).

`wire` encodes and decodes many protobuf numbers at once, `decoding` converts `tf.train.Example`
records to Arrow columns, `encoding` columns to records, `example_schema` infers and checks Spark
schemas, `record_files` finds files and commits writes. Only `data_source` and `example_schema`
import pyspark.
"""
