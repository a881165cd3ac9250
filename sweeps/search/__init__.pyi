from .ledger_studies import studies_of as studies_of
from .sampler import ThresholdSampler as ThresholdSampler
from .search import Search as Search
from .search_plan import SearchPlan as SearchPlan, plan_searches as plan_searches
from .study_view import (
    Overlay as Overlay,
    StudyView as StudyView,
    attributes_set_by as attributes_set_by,
    open_studies as open_studies,
)
