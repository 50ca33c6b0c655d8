"""The strict stdio front: frames, limits and order before the SDK sees a message (mcp.md section 4)."""
