"""One turn: prepare, rounds, render; running requests."""
