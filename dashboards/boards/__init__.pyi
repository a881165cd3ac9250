from .extras import load_extra as load_extra
from .leet import open_leet as open_leet
from .optuna_board import open_optuna as open_optuna
from .saving import save_boards as save_boards, write_documents as write_documents
