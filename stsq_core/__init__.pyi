from .configs import (
    Measurement as Measurement,
    TrialConfig as TrialConfig,
    TrialResult as TrialResult,
    UserError as UserError,
)
from .oracles import theory as theory
from .training import (
    train_pack as train_pack,
)
