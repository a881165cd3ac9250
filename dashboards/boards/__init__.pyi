from .extras import load_extra as load_extra
from .saving import save_boards as save_boards, write_documents as write_documents
from .viewers import open_leet as open_leet, open_optuna as open_optuna
