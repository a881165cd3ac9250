"""The compiled loops that the kernels of the CPU call."""

from stsq_core.kernels.attention_loops import (
    attend_population as attend_population,
    attend_tokens as attend_tokens,
    learn_population as learn_population,
    learn_tokens as learn_tokens,
)
from stsq_core.kernels.descent_loops import descend as descend, descend_with_moments as descend_with_moments
from stsq_core.kernels.draws import keys as keys, normals as normals, signs as signs, subsets as subsets, uniforms as uniforms
from stsq_core.kernels.net_loops import connect as connect
from stsq_core.kernels.queries import dual as dual
from stsq_core.kernels.step_loops import (
    connect_steps as connect_steps,
    population_steps as population_steps,
    token_steps as token_steps,
)
