from .search import Search as Search
from .study_storage import (
    copied_studies as copied_studies,
    open_studies as open_studies,
    quiet_optuna as quiet_optuna,
    studies_in as studies_in,
    studies_of as studies_of,
    study_damage as study_damage,
)
