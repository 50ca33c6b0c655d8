"""Tells the server what came of the task. A server that is just being restarted is waited for."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from folder_digest.failure import DigestError

PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between the attempts."""

ANSWER_SECONDS = 30.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


def call_back(base: str, plugin: str, task: str, body: Mapping[str, Any], pauses: Sequence[float] = PAUSES) -> None:
    """POST the body to ``<base>/<plugin>/<task>``; raises DigestError when the server does not take it."""
    data = json.dumps(body).encode()
    address = f"{base.rstrip('/')}/{quote(plugin, safe='')}/{quote(task, safe='')}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is no matter of proxies
    why = ""
    for pause in (*pauses, None):
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method="POST")
        try:
            with opener.open(request, timeout=ANSWER_SECONDS) as answer:
                answer.read(65_536)
            return
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code}"
            error.close()
            if error.code not in _AGAIN:
                break
        except (OSError, HTTPException, ValueError) as error:
            why = type(error).__name__
        if pause is not None:
            time.sleep(pause)
    raise DigestError(f"结果无法回传（{why}）", f"the server does not take the result ({why})")
