from .placement import Wish as Wish
from .tune_runner import TuneRunner as TuneRunner
