from .claim_results import Setting as Setting, Verdict as Verdict
from .claim_verdicts import verdicts as verdicts
from .interval_history import KnownThresholds as KnownThresholds, State as State, interval_histories as interval_histories
from .observations import (
    Observation as Observation,
    cells_of as cells_of,
    differing as differing,
    read_observations as read_observations,
    selected as selected,
)
from .progress import (
    CellProgress as CellProgress,
    Known as Known,
    Progress as Progress,
    WorkerProgress as WorkerProgress,
    read_progress as read_progress,
)
