"""``vcp demo``: the demo model by itself."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx

from tests.program import LONGEST, started

QUESTION = {"model": "any", "messages": [{"role": "user", "content": "What is 12*7?"}]}


def test_the_demo_model_runs_alone_and_takes_any_key(tmp_path: Path) -> None:
    with started("demo", "--port", "0", cwd=tmp_path, last_line="demo model") as program:
        address = re.findall(r"API_URL=(\S+)", program.banner)[0]
        headers = {"Authorization": "Bearer whatever"}
        answer = httpx.post(
            f"{address}/v1/chat/completions", json=QUESTION, headers=headers, timeout=LONGEST, trust_env=False
        )
        assert "SciCalculator" in answer.json()["choices"][0]["message"]["content"]
        assert program.stop(signal.SIGINT) == 0
        assert program.logged == ""
    assert list(tmp_path.iterdir()) == []
