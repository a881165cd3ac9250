from .cells import families_of as families_of, law_cells as law_cells
from .comparison import (
    EXPECTED as EXPECTED,
    LawComparison as LawComparison,
    Prediction as Prediction,
    Standing as Standing,
    compare_families as compare_families,
    compare_laws as compare_laws,
)
from .letter_laws import CONSTANT as CONSTANT, LETTERS as LETTERS, letter_law as letter_law
from .line_ratios import fcn_line as fcn_line, has_fcn_bound as has_fcn_bound
from .scaling_law import (
    Estimate as Estimate,
    ScalingLaw as ScalingLaw,
    fit_attention_law as fit_attention_law,
    fit_fcn_law as fit_fcn_law,
    fit_laws as fit_laws,
    fitted_law as fitted_law,
    spelled as spelled,
    spread_words as spread_words,
)
