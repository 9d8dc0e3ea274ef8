"""Files by path or URI: on this host, and in storage that pyarrow knows. Not what is in them."""
