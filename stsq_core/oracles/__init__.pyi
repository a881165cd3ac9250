from . import floors as floors, theory as theory
from .floors import moment_variance as moment_variance
from .theory import step_size_bound as step_size_bound
