"""The parameters that these estimators have in addition to those of `SparkTrainer`.

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
    "How numbers are preprocessed before they reach the network.",
    (
        Row(
            "standardization",
            True,
            boolean,
            "bool",
            "whether features are scaled to mean 0 and standard deviation 1 over the training "
            "rows (sparse ones only to deviation 1), and labels of regression too; predictions "
            "are still in the labels' own unit",
            get="Whether features are standardized.",
            of_rows=True,
        ),
    ),
    bases="ParamAliases, HasStandardization",
)

SIZES: Final = Group(
    "SizeParams",
    "Batch size and epochs: chosen from the number of rows unless they are set.",
    (
        Row(
            "batchSize",
            0,
            integer(0),
            "int",
            "rows per step of each worker; 0 to choose it from the number of rows",
            get="The number of rows per step of each worker, or 0.",
        ),
        Row(
            "epochs",
            0,
            integer(0),
            "int",
            "number of passes over the rows; 0 to choose it from the number of rows, see "
            "history.chosen",
            get="The number of passes over the rows, or 0.",
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
            f"activation of the hidden layers: one of {', '.join(ACTIVATIONS)}",
            get="The activation of the hidden layers.",
        ),
        Row(
            "dropout",
            0.0,
            fraction,
            "float",
            "fraction of hidden units dropped at each training step",
            get="The fraction of hidden units dropped.",
        ),
        Row(
            "batchNorm",
            False,
            boolean,
            "bool",
            "whether batch normalization is applied to each hidden layer",
            get="Whether batch normalization is applied.",
        ),
    ),
)

THRESHOLDS: Final = Group(
    "ThresholdParams",
    "The thresholds of a classifier and its model.",
    (
        Row(
            "thresholds",
            UNSET,
            thresholds,
            "list[float]",
            "one number per class, by which the class's probability is divided before the "
            "greatest is chosen; at most one may be 0",
            get="The thresholds.",
            decides=False,
        ),
    ),
)

CLASSES: Final = Group(
    "ClassifierParams",
    "The parameters of classifiers.",
    (
        Row(
            "numClasses",
            0,
            class_count,
            "int",
            "number of classes; labels are 0, 1, ..., numClasses - 1; 0 to infer it from the "
            "greatest label",
            get="The number of classes, or 0.",
        ),
    ),
    bases="ThresholdParams",
)

OPTIMIZER: Final = Group(
    "OptimizerAccessors",
    "How the loss is minimized.",
    (
        Row(
            "optimizer",
            "Adam",
            choice(*OPTIMIZERS),
            "str",
            f"the optimizer: one of {', '.join(OPTIMIZERS)}",
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
            "how the learning rate changes from the first step to the last: 'constant', 'cosine' "
            "(decays to learningRateEnd along half a cosine), 'exponential' (decays to it by the "
            "same factor in each step) or 'piecewise' (see learningRatePieces)",
            get="How the learning rate changes.",
        ),
        Row(
            "learningRateEnd",
            0.01,
            share_left,
            "float",
            "with the schedules 'cosine' and 'exponential': the final learning rate as a fraction "
            "of learningRate, above 0 and at most 1",
            get="The final learning rate as a fraction of the initial one.",
        ),
        Row(
            "learningRatePieces",
            [[0.5, 0.1], [0.75, 0.01]],
            pieces,
            "list[list[float]]",
            "with the schedule 'piecewise': pairs [fraction of training, factor]; from that point "
            "on the rate is learningRate times the factor",
            get="The pairs of a fraction of training and a factor.",
        ),
        Row(
            "warmup",
            0.0,
            fraction,
            "float",
            "fraction of training during which the learning rate rises from almost 0; 0 for none",
            get="The fraction of training during which the rate rises.",
        ),
        Row(
            "momentum",
            0.0,
            fraction,
            "float",
            "momentum of SGD and RMSProp; 0 for none",
            get="The momentum.",
        ),
        Row(
            "nesterov",
            False,
            boolean,
            "bool",
            "whether SGD uses Nesterov momentum",
            get="Whether SGD uses Nesterov momentum.",
        ),
        Row(
            "weightDecay",
            0.0,
            number(0.0),
            "float",
            "decoupled weight decay: the fraction, multiplied by the learning rate, by which each "
            "step shrinks the weights; not applied to biases and embeddings",
            get="The decoupled weight decay.",
        ),
        Row(
            "gradientClipNorm",
            0.0,
            number(0.0),
            "float",
            "maximum global norm of the gradients of a step; larger gradients are scaled down; 0 "
            "for no limit",
            get="The maximum global norm of the gradients, or 0.",
        ),
        Row(
            "regParam",
            0.0,
            number(0.0),
            "float",
            "factor of the penalty on the weights that is added to the loss; biases and "
            "embeddings are not penalized",
            get="The factor of the penalty.",
        ),
        Row(
            "elasticNetParam",
            0.0,
            number(0.0, 1.0),
            "float",
            "fraction of the penalty that is L1; the rest is L2, half the sum of squares",
            get="The fraction of the penalty that is L1.",
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
            "columns of the wide part: each string or integer value has a weight of its own, "
            "numeric columns have one weight per number",
            get="The columns of the wide part.",
        ),
        Row(
            "deepCols",
            [],
            column_list,
            "list[str]",
            "columns of the deep part: strings, integers and lists of them are embedded; numbers, "
            "vectors and arrays of numbers are used as they are",
            get="The columns of the deep part.",
        ),
        Row(
            "crossCols",
            [],
            crosses,
            "list[list[str]]",
            "lists of string or integer columns: each combination of their values has a weight in "
            "the wide part",
            get="The lists of columns to cross.",
        ),
        Row(
            "categoricalCols",
            [],
            column_list,
            "list[str]",
            "integer columns that are categorical: each value is learnt separately; integer "
            "columns in neither this list nor numericCols are classified by the number of their "
            "distinct values",
            get="The categorical integer columns.",
        ),
        Row(
            "numericCols",
            [],
            column_list,
            "list[str]",
            "integer columns that are numeric, however few distinct values they have",
            get="The numeric integer columns.",
        ),
        Row(
            "embeddingDim",
            8,
            integer_by_column(1),
            "int | dict[str, int]",
            "embedding size of strings and integers, for all columns or by column",
            get="The embedding size, or sizes by column.",
        ),
        Row(
            "hashBuckets",
            1000,
            integer_by_column(1),
            "int | dict[str, int]",
            "number of hash buckets for the values of a string or integer column, for all columns "
            "or by column (a cross is named by its columns joined with '_x_')",
            get="The number of hash buckets, or numbers by column.",
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
