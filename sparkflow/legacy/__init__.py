"""Parts that only old programs use: readers, queue input, `Supervisor`, canned estimators.

Nothing else imports it; the generated tables of names offer it where TensorFlow has it.
"""
