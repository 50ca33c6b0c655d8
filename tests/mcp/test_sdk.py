"""The SDK is imported by several threads that need it at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

AT_ONCE = """
import sys, threading
from app.mcp.client.around import opener
from app.services.mcp_http import _import_sdk as sessions
from app.services.mcp_server import _import_sdk as door

sys.setswitchinterval(1e-5)
faults = []

def one(load):
    try:
        load()
    except ImportError as error:
        faults.append(str(error))

threads = [threading.Thread(target=one, args=(load,)) for load in (opener, sessions, door)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(faults)
"""


def test_a_client_and_a_server_that_need_the_sdk_at_once_both_get_it() -> None:
    """It imports itself in circles: with two threads in it, each found half-made modules of the other."""
    found = subprocess.run([sys.executable, "-c", AT_ONCE], cwd=ROOT, capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "[]"
