from .choice import kernels_for as kernels_for
from .interface import (
    Kernels as Kernels,
    NetStep as NetStep,
    PopulationStep as PopulationStep,
    Rates as Rates,
    StreamKeys as StreamKeys,
    TokenStep as TokenStep,
)
