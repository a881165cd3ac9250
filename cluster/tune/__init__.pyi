from .ray_cluster import check_answers as check_answers
from .ray_private import job_server_get as job_server_get, packaged_files as packaged_files
from .tune_runner import TuneRunner as TuneRunner
