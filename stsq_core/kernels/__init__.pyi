from .choice import kernels_for as kernels_for
from .compile_clock import training_clock as training_clock
from .interface import (
    DUAL_TOLERANCE as DUAL_TOLERANCE,
    AttentionStreams as AttentionStreams,
    Kernels as Kernels,
    NetStep as NetStep,
    NetStreams as NetStreams,
    PopulationStep as PopulationStep,
    Rates as Rates,
    RateTable as RateTable,
    StreamKeys as StreamKeys,
    TokenStep as TokenStep,
)
