"""The plainest strategy, for tests of whoever drives one."""

from stsq_core import TrialConfig
from sweeps.schedule.strategy import Strategy


class Once(Strategy):
    """Asks for some trials, once."""

    def __init__(self, configs: tuple[TrialConfig, ...]) -> None:
        self._configs = configs

    def ask(self) -> tuple[TrialConfig, ...]:
        asked, self._configs = self._configs, ()
        return asked

    def tell(self, records: object) -> None: ...

    @property
    def finished(self) -> bool:
        return not self._configs
