from .claim_results import Setting as Setting, Verdict as Verdict
from .claim_verdicts import verdicts as verdicts
from .interval_history import KnownThresholds as KnownThresholds, State as State, narrowings as narrowings
from .observations import (
    Observation as Observation,
    cells_of as cells_of,
    differing as differing,
    read_observations as read_observations,
    selected as selected,
)
from .progress import (
    CellHeadway as CellHeadway,
    Headway as Headway,
    Known as Known,
    WorkerHeadway as WorkerHeadway,
    read_headway as read_headway,
)
