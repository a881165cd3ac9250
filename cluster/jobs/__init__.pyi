from . import control as control, submission as submission
