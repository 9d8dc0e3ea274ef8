"""Variables: state that lives between runs, its scopes and its initialisation."""

from sparkflow.variables import resource_variable as resource_variable  # says what it is
