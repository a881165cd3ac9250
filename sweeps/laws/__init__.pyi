from .cells import by_regime as by_regime, law_cells as law_cells
from .comparison import (
    LawComparison as LawComparison,
    Prediction as Prediction,
    Standing as Standing,
    compare_laws as compare_laws,
    compare_regimes as compare_regimes,
)
from .decision import (
    Decision as Decision,
    decisions_of as decisions_of,
    families_of as families_of,
    unfinished_cells as unfinished_cells,
)
from .families import FamilyComparison as FamilyComparison, compare_families as compare_families
from .fit import Estimate as Estimate
from .formulas import CONSTANT as CONSTANT, LAWS as LAWS, LETTERS as LETTERS, letter_law as letter_law
from .line_ratios import fcn_line as fcn_line, has_fcn_bound as has_fcn_bound
from .outlook import decided_plans as decided_plans, outlook_of as outlook_of
from .scaling_law import (
    ScalingLaw as ScalingLaw,
    fitted_law as fitted_law,
    spelled as spelled,
    spread_words as spread_words,
)
