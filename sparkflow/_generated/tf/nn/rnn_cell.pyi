"""`tf.nn.rnn_cell`: cells of recurrent networks, and what wraps them.

Made by `scripts/generate_api.py`.
"""

from sparkflow.rnn.cell import LSTMStateTuple, RNNCell
from sparkflow.rnn.cells import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell
from sparkflow.rnn.wrappers import DeviceWrapper, DropoutWrapper, MultiRNNCell, ResidualWrapper

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
]
