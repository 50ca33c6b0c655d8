"""What clients are told of what happens in the server, also those that were away (spec 6.2, 6.5, 6.7)."""
