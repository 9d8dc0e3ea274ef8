"""`tf.contrib.rnn`: the cells of `tf.nn.rnn_cell` and many more, networks, fused networks."""

from sparkflow.contrib.rnn.attention_cell import AttentionCellWrapper
from sparkflow.contrib.rnn.cells import (
    HighwayWrapper,
    IndRNNCell,
    IntersectionRNNCell,
    NASCell,
    SRUCell,
    UGRNNCell,
)
from sparkflow.contrib.rnn.fused import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    GRUBlockCell,
    GRUBlockCellV2,
    LSTMBlockCell,
    LSTMBlockFusedCell,
    LSTMBlockWrapper,
    TimeReversedFusedRNN,
)
from sparkflow.contrib.rnn.lstm_cells import (
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    ConvLSTMCell,
    CoupledInputForgetGateLSTMCell,
    LayerNormBasicLSTMCell,
)
from sparkflow.contrib.rnn.stacked import (
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    transpose_batch_time,
)
from sparkflow.rnn.cell import LSTMStateTuple, RNNCell
from sparkflow.rnn.cells import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell
from sparkflow.rnn.unrolled import (
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from sparkflow.rnn.wrappers import (
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)

LayerRNNCell = RNNCell

__all__ = [
    "AttentionCellWrapper",
    "BasicLSTMCell",
    "BasicRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GRUCell",
    "HighwayWrapper",
    "IndRNNCell",
    "InputProjectionWrapper",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMBlockWrapper",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormBasicLSTMCell",
    "LayerRNNCell",
    "MultiRNNCell",
    "NASCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
    "SRUCell",
    "TimeReversedFusedRNN",
    "UGRNNCell",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
    "transpose_batch_time",
]
