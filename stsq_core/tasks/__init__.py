"""The arithmetic of the tasks: one `Examples` (stsq_core.examples) a module; their configs stand in `stsq_core.task`."""
