from .choice import kernels_for as kernels_for
from .interface import (
    Draws as Draws,
    Kernels as Kernels,
    PopulationStep as PopulationStep,
    Rates as Rates,
    TokenStep as TokenStep,
)
