from .codebook import BookSource as BookSource, LearnedBook as LearnedBook
from .codes import Codes as Codes, PluginCode as PluginCode, codes_for as codes_for
from .fcn import FcnProgram as FcnProgram, uniform_layers as uniform_layers
from .full_transformer import FullTransformer as FullTransformer, Samples as Samples, SharedCodes as SharedCodes
from .program import FusedProgram as FusedProgram, Program as Program, Tensors as Tensors
from .sample_codes import (
    MinibatchSampleCodes as MinibatchSampleCodes,
    PopulationSampleCodes as PopulationSampleCodes,
    SampleBook as SampleBook,
)
from .theorem_transformer import MinibatchTransformer as MinibatchTransformer, PopulationTransformer as PopulationTransformer
