"""The examples of docs/plugins.md work as they are printed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import Access
from tests.plugins.modules import call
from tests.server import running

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"
EXAMPLE = re.compile(r"^```(?:json|python) file=(Plugin/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_examples(home: Path) -> list[str]:
    """Each file that the guide prints; the name stands behind the language."""
    names = []
    for name, text in EXAMPLE.findall(GUIDE.read_text(encoding="utf-8")):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        names.append(name)
    return names


def test_the_plugins_inside_the_server_do_what_the_guide_says(tmp_path: Path) -> None:
    names = write_examples(tmp_path)
    assert len(names) == len(set(names)) >= 9

    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            assert server.services.in_process.problems() == ()
            greeted = await call(server.services, "Doorman", {"who": "Nova"})
            assert greeted.structured == {"said": "Hello, Nova!"}
            for count in (1, 2):
                answered = await server.client.post("/api/plugins/Counter/count")
                assert answered.json() == {"count": count}
            await server.chat({"role": "system", "content": "{{Length::four}} {{VCPDoorman}}"})
            polite, mine = up.exchanges[0].request.json["messages"]
            assert re.fullmatch(r"Be polite\. It is \d\d:\d\d:\d\d\.", polite["content"])
            assert mine["content"].startswith("4 ")
            assert "Welcomes somebody" in mine["content"]

    asyncio.run(main())


def test_the_guide_names_every_access_there_is() -> None:
    table = GUIDE.read_text(encoding="utf-8")
    assert all(f"`Access.{access.name}`" in table for access in Access)
