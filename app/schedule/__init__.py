"""Tool calls that are put off: stored, claimed, carried out once."""
