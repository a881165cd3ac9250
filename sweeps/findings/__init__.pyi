from .claim_pairs import planned_pairs as planned_pairs, unpaired_words as unpaired_words
from .claim_results import LEAST_SEEDS as LEAST_SEEDS, Answer as Answer, ClaimSetting as ClaimSetting, Verdict as Verdict
from .interval_history import KnownThresholds as KnownThresholds, State as State, interval_histories as interval_histories
from .observations import Observation as Observation, cells_of as cells_of, differing as differing, selected as selected
from .progress import (
    CellProgress as CellProgress,
    Progress as Progress,
    ProgressSource as ProgressSource,
    WorkerProgress as WorkerProgress,
    progress_source as progress_source,
    read_progress as read_progress,
)
from .progress_basis import planned_trials as planned_trials
from .regimes import Regime as Regime
from .run_findings import Findings as Findings, findings_of as findings_of, read_findings as read_findings
from .threshold_verdicts import threshold_ratio as threshold_ratio
