"""From messages to expanded messages: pieces, phases, placeholder sources, detectors."""
