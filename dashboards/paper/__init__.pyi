from .chosen_figure import chosen_figure as chosen_figure, first_figure as first_figure, installed_tex as installed_tex
from .figures import (
    custom_figure as custom_figure,
    laws_figure as laws_figure,
    losses_figure as losses_figure,
    phase_figure as phase_figure,
    picture as picture,
    save_figure as save_figure,
    threshold_figure as threshold_figure,
)
from .law_tables import (
    Row as Row,
    law_rows as law_rows,
    laws_csv as laws_csv,
    laws_latex as laws_latex,
    named_laws as named_laws,
)
from .tables import (
    failures_table as failures_table,
    threshold_rows as threshold_rows,
    thresholds_csv as thresholds_csv,
    thresholds_json as thresholds_json,
    thresholds_latex as thresholds_latex,
    trials_csv as trials_csv,
    verdicts_json as verdicts_json,
)
