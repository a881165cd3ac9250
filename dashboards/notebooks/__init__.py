"""A run in a notebook: tidy tables, and figures that display themselves; `dashboards.load(RUN)` is the way in."""
