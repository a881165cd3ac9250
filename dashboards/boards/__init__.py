"""Boards of other people's viewers, set up for a run: a W&B workspace and report, optuna-dashboard, W&B's terminal viewer."""
