from .loaded_run import load as load
