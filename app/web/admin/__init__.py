"""JSON routes for administrators (vcp-core 8.2), one file for each group."""
