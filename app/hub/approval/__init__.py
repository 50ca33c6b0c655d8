"""Tool calls that wait for a person's word (spec 7.6)."""
