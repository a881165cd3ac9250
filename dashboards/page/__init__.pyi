from .comparison import (
    SAME_TRIALS as SAME_TRIALS,
    Compared as Compared,
    comparison_of as comparison_of,
    matched_cells as matched_cells,
    run_ratio as run_ratio,
)
from .headline import result_words as result_words
from .html_document import Document as Document, asset as asset, live_html as live_html
from .interactive import Spec as Spec, plotly_script as plotly_script, plotly_spec as plotly_spec
from .report import (
    Contents as Contents,
    contents_of as contents_of,
    write_figures as write_figures,
    write_report as write_report,
    write_tables as write_tables,
)
from .run_index import index_of as index_of
from .run_sections import progress_section as progress_section
from .run_summary import RunSummary as RunSummary, summary_of as summary_of
from .sections import page_section as page_section
from .summary import footer as footer, heading as heading, status_words as status_words
