"""Far nodes: who is connected, what they bring, how they are called (spec 6.4, 5.9)."""
