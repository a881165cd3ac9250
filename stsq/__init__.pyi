from dashboards import load as load
from stsq_core import TrialConfig as TrialConfig, theory as theory, train_pack as train_pack
from sweeps import ThresholdSampler as ThresholdSampler, load_sweep as load_sweep

__version__: str
