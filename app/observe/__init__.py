"""What happens, for others to hear and read: the event bus, the log, numbers, dumps."""
