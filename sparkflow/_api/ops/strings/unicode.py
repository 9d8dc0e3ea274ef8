"""Unicode in `tf.strings`: code points, encodings."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "UnicodeTranscode",
        "strings.unicode_transcode",
        (
            'input, input_encoding: str, output_encoding: str, errors: str = "replace", '
            "replacement_char: int = 0xFFFD, replace_control_characters: bool = False"
        ),
        "Strings in another encoding.",
        arguments={
            "input": "Strings.",
            "input_encoding": 'What they are in, such as "UTF-8" or "latin1".',
            "output_encoding": '"UTF-8", "UTF-16-BE" or "UTF-32-BE".',
            "errors": 'What to do where there is no character: "replace", "ignore" or "strict".',
            "replacement_char": 'The code point for "replace".',
            "replace_control_characters": "Treat those below 32 so too.",
        },
    ),
)
