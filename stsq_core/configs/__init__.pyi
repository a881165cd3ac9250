from . import size as size
from .architecture import Architecture as Architecture, Fcn as Fcn, Transformer as Transformer
from .attention import Attention as Attention, Scores as Scores
from .boolean import COPIED as COPIED, SparseBoolean as SparseBoolean
from .docstrings import field_docs as field_docs
from .errors import SHOWN as SHOWN, UserError as UserError, missing_case as missing_case, shown as shown
from .family import TrialFamily as TrialFamily
from .open_union import kind_of as kind_of, plugin_of as plugin_of, records_of as records_of
from .optimizer import (
    Adam as Adam,
    AdamW as AdamW,
    GradientDescent as GradientDescent,
    Optimizer as Optimizer,
    OwnOptimizer as OwnOptimizer,
    Schedule as Schedule,
)
from .positions import (
    Gaussian as Gaussian,
    Learned as Learned,
    OneHot as OneHot,
    PositionalCode as PositionalCode,
    Positions as Positions,
    Query as Query,
    RandomSign as RandomSign,
    Sinusoidal as Sinusoidal,
)
from .prompt_models import BitAttention as BitAttention, Ffn as Ffn, Rnn as Rnn, TransformerMlp as TransformerMlp
from .record import Record as Record, as_tuple as as_tuple
from .retrieval import Qstr as Qstr, Retrieval as Retrieval, SimpleQstr as SimpleQstr
from .selected_tokens import Moment as Moment, SelectedMean as SelectedMean
from .size import SAMPLES as SAMPLES, WIDTH as WIDTH, Size as Size, size_named as size_named
from .stacking import LANES as LANES, padded_tokens as padded_tokens, padded_width as padded_width, stack_key as stack_key
from .stream import StreamTransformer as StreamTransformer
from .task import MAX_SIZE as MAX_SIZE, PositiveInt as PositiveInt, Stsq as Stsq, TokenTask as TokenTask
from .token_laws import (
    CorrelatedTokens as CorrelatedTokens,
    GaussianTokens as GaussianTokens,
    LaplaceTokens as LaplaceTokens,
    StudentTokens as StudentTokens,
    TokenLaw as TokenLaw,
)
from .training import CHUNK as CHUNK, SAMPLES_TO_TARGET as SAMPLES_TO_TARGET, Evaluation as Evaluation
from .trial import (
    NUMERICS as NUMERICS,
    PLUGIN as PLUGIN,
    Measurement as Measurement,
    TrialConfig as TrialConfig,
    TrialResult as TrialResult,
    deviations as deviations,
    plugins_of as plugins_of,
)
from .unions import MODELS as MODELS, UNIONS as UNIONS, Model as Model, Task as Task
