"""The parameters that the estimators here have beside those of `SparkTrainer`.

After a change run `scripts/generate_params.py`.
"""

from __future__ import annotations

from typing import Final

from sparkflow.spark.estimators.estimator_converters import (
    class_count,
    column_list,
    crosses,
    fraction,
    integer_by_column,
    integers,
    pieces,
    positive,
    share_left,
    thresholds,
)
from sparkflow.spark.estimators.optimizers import CONSTANT, OPTIMIZERS, SCHEDULES
from sparkflow.spark.params.converters import boolean, choice, integer, number
from sparkflow.spark.params.row import UNSET, Group, Row

ACTIVATIONS = ("relu", "tanh", "sigmoid", "elu", "selu", "softplus", "softsign", "relu6", "swish")

STANDARDIZATION: Final = Group(
    "StandardizationParams",
    "What numbers become before the network sees them.",
    (
        Row(
            "standardization",
            True,
            boolean,
            "bool",
            "whether features are given mean 0 and deviation 1, as the training rows have "
            "them (sparse ones only deviation 1), and labels of regression too; "
            "predictions are in the labels' own unit all the same",
            get="Whether features are standardized.",
            of_rows=True,
        ),
    ),
    bases="ParamAliases, HasStandardization",
)

SIZES: Final = Group(
    "SizeParams",
    "How long and in what portions: chosen by the number of rows where nobody says so.",
    (
        Row(
            "batchSize",
            0,
            integer(0),
            "int",
            "rows per step of each worker; 0 has it chosen by the number of rows",
            get="Rows per step of each worker, or 0.",
        ),
        Row(
            "epochs",
            0,
            integer(0),
            "int",
            "how often each row is trained on; 0 has it chosen by the number of rows, see "
            "history.chosen",
            get="How often each row is trained on, or 0.",
            decides=False,
        ),
    ),
)

HIDDEN: Final = Group(
    "HiddenParams",
    "The hidden layers of a deep network.",
    (
        Row(
            "hiddenUnits",
            [64, 32],
            integers(1),
            "list[int]",
            "the sizes of the hidden layers",
            get="The sizes of the hidden layers.",
        ),
        Row(
            "activation",
            "relu",
            choice(*ACTIVATIONS),
            "str",
            f"of the hidden layers: one of {', '.join(ACTIVATIONS)}",
            get="The activation of the hidden layers.",
        ),
        Row(
            "dropout",
            0.0,
            fraction,
            "float",
            "the share of hidden units that is left out at each training step",
            get="The share of units left out.",
        ),
        Row(
            "batchNorm",
            False,
            boolean,
            "bool",
            "whether each hidden layer is normalized by batch",
            get="Whether hidden layers are normalized.",
        ),
    ),
)

THRESHOLDS: Final = Group(
    "ThresholdParams",
    "What both a classifier and its model know of thresholds.",
    (
        Row(
            "thresholds",
            UNSET,
            thresholds,
            "list[float]",
            "a number per class by which its probability is divided before the greatest "
            "decides; at most one may be 0",
            get="The thresholds.",
            decides=False,
        ),
    ),
)

CLASSES: Final = Group(
    "ClassifierParams",
    "What classifiers know.",
    (
        Row(
            "numClasses",
            0,
            class_count,
            "int",
            "labels are 0, 1, ..., numClasses - 1; 0 has it taken from the greatest label",
            get="The number of classes, or 0.",
        ),
    ),
    bases="ThresholdParams",
)

OPTIMIZER: Final = Group(
    "OptimizerAccessors",
    "How the loss is made smaller.",
    (
        Row(
            "optimizer",
            "Adam",
            choice(*OPTIMIZERS),
            "str",
            f"one of {', '.join(OPTIMIZERS)}",
            get="The name of the optimizer.",
        ),
        Row(
            "learningRate",
            0.001,
            positive,
            "float",
            "the optimizer's learning rate, above 0",
            get="The learning rate.",
        ),
        Row(
            "learningRateSchedule",
            CONSTANT,
            choice(*SCHEDULES),
            "str",
            "how the learning rate goes from the first step to the last: 'constant', "
            "'cosine' (falls to learningRateEnd along half a cosine), 'exponential' (falls "
            "to it by the same factor in each step) or 'piecewise' (see learningRatePieces)",
            get="How the learning rate goes.",
        ),
        Row(
            "learningRateEnd",
            0.01,
            share_left,
            "float",
            "with the schedules 'cosine' and 'exponential': the share of learningRate that "
            "is left at the end, above 0 and at most 1",
            get="The share of the learning rate that is left at the end.",
        ),
        Row(
            "learningRatePieces",
            [[0.5, 0.1], [0.75, 0.01]],
            pieces,
            "list[list[float]]",
            "with the schedule 'piecewise': pairs [share of training, factor]; from there "
            "on the rate is learningRate times the factor",
            get="Shares of training and factors.",
        ),
        Row(
            "warmup",
            0.0,
            fraction,
            "float",
            "the share of training in which the learning rate rises from next to nothing; "
            "0 for none",
            get="The share of training in which the rate rises.",
        ),
        Row(
            "momentum",
            0.0,
            fraction,
            "float",
            "of SGD and RMSProp: how much of the last step goes on; 0 for none",
            get="The momentum.",
        ),
        Row(
            "nesterov",
            False,
            boolean,
            "bool",
            "of SGD with momentum: whether it looks ahead (Nesterov's way)",
            get="Whether momentum looks ahead.",
        ),
        Row(
            "weightDecay",
            0.0,
            number(0.0),
            "float",
            "the part, times the learning rate, by which each step makes weights smaller, "
            "apart from the gradient; biases and embeddings left out",
            get="The decay of the weights.",
        ),
        Row(
            "gradientClipNorm",
            0.0,
            number(0.0),
            "float",
            "the greatest norm of all gradients of a step together; larger ones are scaled "
            "down; 0 for no limit",
            get="The greatest norm of the gradients, or 0.",
        ),
        Row(
            "regParam",
            0.0,
            number(0.0),
            "float",
            "how much the sizes of the weights add to the loss, biases and embeddings left out",
            get="The factor of the penalty.",
        ),
        Row(
            "elasticNetParam",
            0.0,
            number(0.0, 1.0),
            "float",
            "the share of the L1 penalty in regParam; the rest is L2, the half of the squares",
            get="The share of the L1 penalty.",
        ),
    ),
    bases="ParamAliases, HasRegParam, HasElasticNetParam",
)

WIDE: Final = Group(
    "WideAccessors",
    "Which columns go where, and how the wide part learns.",
    (
        Row(
            "wideCols",
            [],
            column_list,
            "list[str]",
            "columns of the wide part: each text or integer has a weight of its own, "
            "numbers are weighed",
            get="The columns of the wide part.",
        ),
        Row(
            "deepCols",
            [],
            column_list,
            "list[str]",
            "columns of the deep part: texts, integers and lists of them are embedded, "
            "numbers, vectors and arrays of numbers are taken as they are",
            get="The columns of the deep part.",
        ),
        Row(
            "crossCols",
            [],
            crosses,
            "list[list[str]]",
            "lists of columns of texts or integers: each combination of their values has a "
            "weight in the wide part",
            get="The columns whose combinations count.",
        ),
        Row(
            "categoricalCols",
            [],
            column_list,
            "list[str]",
            "columns of integers whose values are names of things, each learnt for itself; "
            "those that are named here no more than in numericCols are judged by how many "
            "values they have",
            get="The columns of integers that are names of things.",
        ),
        Row(
            "numericCols",
            [],
            column_list,
            "list[str]",
            "columns of integers that are numbers, however few values they have",
            get="The columns of integers that are numbers.",
        ),
        Row(
            "embeddingDim",
            8,
            integer_by_column(1),
            "int | dict[str, int]",
            "how many numbers a text or integer is embedded in; for all columns, or by column",
            get="The width of embeddings, or widths by column.",
        ),
        Row(
            "hashBuckets",
            1000,
            integer_by_column(1),
            "int | dict[str, int]",
            "into how many buckets the values of a column of texts or integers are hashed; "
            "for all columns, or by column (a cross by its columns joined with '_x_')",
            get="The number of buckets, or numbers by column.",
        ),
        Row(
            "wideOptimizer",
            "Ftrl",
            choice(*OPTIMIZERS),
            "str",
            f"the optimizer of the wide part: one of {', '.join(OPTIMIZERS)}",
            get="The optimizer of the wide part.",
        ),
        Row(
            "wideLearningRate",
            0.1,
            positive,
            "float",
            "the learning rate of the wide part, above 0",
            get="The learning rate of the wide part.",
        ),
    ),
)
GROUPS: Final = (STANDARDIZATION, SIZES, HIDDEN, THRESHOLDS, CLASSES, OPTIMIZER, WIDE)
