"""`tf.nn.rnn_cell`: cells of recurrent networks, and what wraps them.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.rnn.cell": "LSTMStateTuple RNNCell",
        "sparkflow.rnn.cells": "BasicLSTMCell BasicRNNCell GRUCell LSTMCell",
        "sparkflow.rnn.wrappers": "DeviceWrapper DropoutWrapper MultiRNNCell ResidualWrapper",
    },
)
