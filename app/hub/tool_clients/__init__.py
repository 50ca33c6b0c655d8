"""Programs that bring tools and call those of others over the tool socket (WS-1 to WS-19)."""
