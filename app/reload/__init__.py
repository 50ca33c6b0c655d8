"""Live reload: noticing that files of an installation changed, reading them, putting them in force (spec 5.11)."""
