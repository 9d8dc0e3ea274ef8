"""Files in graphs: `tf.read_file` and its like. The host that runs the op reads its own files."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "ReadFile",
        "read_file io.read_file",
        "filename",
        "The contents of a file, when the op runs.",
        arguments={
            "filename": "A scalar string: a path or URI on the host of the op's device.",
        },
    ),
    Row(
        "WriteFile",
        "write_file io.write_file",
        "filename, contents",
        "Writes a file when the op runs; directories that are missing are made.",
        arguments={
            "filename": "A scalar string: a path or URI on the host of the op's device.",
            "contents": "A scalar string.",
        },
    ),
    Row(
        "MatchingFiles",
        "matching_files io.matching_files",
        "pattern",
        "The paths that match a pattern or one of several, sorted, when the op runs.",
    ),
)
