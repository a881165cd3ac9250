"""The page of a sweep, static and live: its sections, the document they stand in, and the files beside it."""
