"""Runs sweeps, inline or on Ray, and is the front door: the `stsq` command.

Nobody imports from here; everything a library user needs is in `stsq`, `stsq_core`, `sweeps` and `dashboards`.
"""
