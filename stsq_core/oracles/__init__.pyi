from . import theory as theory
from .theory import theorem_lines as theorem_lines
