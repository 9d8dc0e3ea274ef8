"""Parts that only old programs use: readers, queue input, `Supervisor`, canned estimators.

Nothing else imports it; the generated tables of names export it under TensorFlow's names.
"""
