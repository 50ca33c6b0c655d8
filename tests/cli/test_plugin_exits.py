"""A plugin inside the server that asks for the end of the program from a task or callback of its own."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.program import LONGEST, started
from tests.server import write_plugin

LEAVER = """
import asyncio

async def leave():
    raise {fault}

class Plugin:
    def call(self, call, context):
        return "never used"

    async def start(self):
        {begin}

def create(context):
    return Plugin()
"""

DIRECT = {
    "pluginType": "hybridservice",
    "entryPoint": {"script": "main.py"},
    "communication": {"protocol": "direct"},
}
IN_A_TASK = "self.task = asyncio.create_task(leave())"
IN_A_CALLBACK = "asyncio.get_running_loop().call_soon(exit, 3)"


@pytest.mark.parametrize(
    ("fault", "begin"),
    [("SystemExit(3)", IN_A_TASK), ("KeyboardInterrupt", IN_A_TASK), ("SystemExit", IN_A_CALLBACK)],
)
def test_the_server_goes_on_and_ends_in_order_when_it_is_asked_to(tmp_path: Path, fault: str, begin: str) -> None:
    write_plugin(tmp_path, "Leaver", LEAVER.format(fault=fault, begin=begin), **DIRECT)
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        answer = httpx.get(
            f"{program.base_url}/models",
            headers={"Authorization": f"Bearer {program.key}"},
            timeout=LONGEST,
            trust_env=False,
        )
        assert answer.status_code == 200
        assert program.stop() == 0
        assert "something asked for the end of the program" in program.logged
