from .claim_words import number_words as number_words, setting_interval as setting_interval, setting_words as setting_words
from .columns import (
    Axes as Axes,
    OfCell as OfCell,
    axes_of as axes_of,
    family_names as family_names,
    field_name as field_name,
    value_words as value_words,
)
from .law_words import (
    Formula as Formula,
    agreement_words as agreement_words,
    estimate_words as estimate_words,
    fitted_formula as fitted_formula,
    interval_words as interval_words,
    left_html as left_html,
    measured_words as measured_words,
    numbers_words as numbers_words,
    plain_formula as plain_formula,
    standing_words as standing_words,
    verdict_html as verdict_html,
    width_words as width_words,
)
from .markup import (
    Html as Html,
    element as element,
    joined as joined,
    json_script as json_script,
    prose as prose,
    table as table,
)
from .progress_words import (
    duration_words as duration_words,
    ended_words as ended_words,
    left_words as left_words,
    searches_words as searches_words,
)
from .style import (
    CARD as CARD,
    DASHES as DASHES,
    FAINT as FAINT,
    INK as INK,
    LINES as LINES,
    MUTED as MUTED,
    TARGET as TARGET,
    WIDTHS as WIDTHS,
    Dash as Dash,
    Shade as Shade,
    architecture_name as architecture_name,
    mark_shape as mark_shape,
    paper_mark as paper_mark,
    series_shade as series_shade,
    theme_pairs as theme_pairs,
    translucent as translucent,
    width_shade as width_shade,
)
from .threshold_words import (
    end_words as end_words,
    found_words as found_words,
    interval_text as interval_text,
    regime_words as regime_words,
    star_words as star_words,
    whole_letter as whole_letter,
)
from .ticks import loss_ticks as loss_ticks, round_numbers as round_numbers, tick_words as tick_words, ticks_at as ticks_at
