"""The SDK, imported as a whole by whoever needs any of it first.

Its modules import each other in circles: two threads that begin at different ends of it find half-made modules. Who
imports this module first does it for all, and others wait until it is done. It takes half a second, so it is done in a
thread and at the first use.
"""

from __future__ import annotations

import mcp
import mcp.client.auth

WHOLE = (mcp, mcp.client.auth)
"""What there is, for those who import it for its sake only."""
