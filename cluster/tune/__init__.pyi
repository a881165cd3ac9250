from .tune_runner import TuneRunner as TuneRunner
