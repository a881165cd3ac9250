from . import theory as theory
from .theory import step_size_bound as step_size_bound
