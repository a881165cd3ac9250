from . import control as control, submission as submission
from .job_client import first_line as first_line
