"""`tf.initializers`: initial values of variables.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.ops.state.vocabulary": "tables_initializer",
        "sparkflow.variables.initialization": (
            "global_variables_initializer:global_variables global_variables_initializer "
            "local_variables_initializer:local_variables local_variables_initializer "
            "variables_initializer:variables variables_initializer"
        ),
        "sparkflow.variables.initializers": (
            "Constant Constant:constant Constant:constant_initializer GlorotNormal "
            "GlorotNormal:glorot_normal GlorotNormal:glorot_normal_initializer GlorotUniform "
            "GlorotUniform:glorot_uniform GlorotUniform:glorot_uniform_initializer Identity "
            "Identity:identity Initializer Ones Ones:ones Ones:ones_initializer Orthogonal "
            "Orthogonal:orthogonal Orthogonal:orthogonal_initializer RandomNormal "
            "RandomNormal:random_normal RandomNormal:random_normal_initializer RandomUniform "
            "RandomUniform:random_uniform RandomUniform:random_uniform_initializer "
            "TruncatedNormal TruncatedNormal:truncated_normal "
            "TruncatedNormal:truncated_normal_initializer UniformUnitScaling "
            "UniformUnitScaling:uniform_unit_scaling "
            "UniformUnitScaling:uniform_unit_scaling_initializer VarianceScaling "
            "VarianceScaling:variance_scaling VarianceScaling:variance_scaling_initializer "
            "Zeros Zeros:zeros Zeros:zeros_initializer he_normal he_uniform lecun_normal "
            "lecun_uniform"
        ),
    },
)
