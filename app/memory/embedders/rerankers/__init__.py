"""What orders found texts anew by how well they answer (memory.md 2.8, 8.4)."""
