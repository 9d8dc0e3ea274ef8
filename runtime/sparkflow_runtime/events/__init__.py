"""TFRecord files and TensorBoard event files.

`crc32c` holds the checksum, `records` the framing of records, `event_file` the writer and the
reader of event files. The front end makes summaries from tensors.
"""
