"""The cache of descriptions for administrators: HTTP beyond the original's routes, and the page (vcp-core 8.2, 8.4)."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import Received, say
from app.demo.scripted import ScriptedUpstream
from tests.server import run
from tests.web.panel.visitor import HOSTILE, Visitor, visiting

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 40
PAGE = "/plugin-pages/ImageProcessor/media-cache"
LONG = "Described by the model that was asked, in more than fifty characters altogether."
CONFIG = ("MultiModalModel=eyes", "MultiModalPrompt=Describe it.")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def served(home: Path, test: Callable[[Visitor], Awaitable[None]], *config: str) -> None:
    def answer(_received: Received) -> Any:
        return say(LONG)

    async def main() -> None:
        async with (
            ScriptedUpstream(answer) as up,
            visiting(home, up.base_url, config=(*CONFIG, *config)) as visitor,
        ):
            await test(visitor)

    run(main())


async def fill(visitor: Visitor, *entries: tuple[bytes, str]) -> None:
    data = {base64.b64encode(content).decode(): {"description": text} for content, text in entries}
    assert (await visitor.api("POST", "/multimodal-cache", {"data": data})).status_code == 200


def version_in(page: str, content: bytes) -> str:
    found = re.search(rf'name="hash" value="{sha(content)}"><input type="hidden" name="version" value="(\w+)"', page)
    assert found is not None
    return found[1]


def test_an_empty_cache_says_what_fills_it(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        answer = await visitor.client.get("/AdminPanel/media-cache", follow_redirects=True)
        assert answer.url.path.endswith(PAGE)
        assert "还没有转译" in await visitor.page(PAGE, language="zh")
        assert "No descriptions yet" in await visitor.page(PAGE)

    served(tmp_path, test)


def test_without_the_plugin_the_short_address_says_so(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        assert "ImageProcessor is not running" in await visitor.page("/media-cache")

    (tmp_path / "Plugin" / "ImageProcessor").mkdir(parents=True)
    (tmp_path / "Plugin" / "ImageProcessor" / "plugin-manifest.json.block").write_text("{}")
    served(tmp_path, test)


def test_descriptions_are_corrected_made_anew_and_deleted_on_the_page(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        await fill(visitor, (PNG, "Ein Fluss."), (b"sound", "Ein Lied."))
        page = await visitor.page(PAGE)
        assert f'src="/admin_api/multimodal-cache/media/{sha(PNG)}"' in page
        fields = {"hash": sha(PNG), "version": version_in(page, PNG), "description": "Ein breiter\r\nFluss."}
        saved = (await visitor.post(PAGE, {**fields, "action": "save"}, htmx=False)).text
        assert "The description is saved" in saved
        assert "Ein breiter\nFluss." in saved
        anew = (await visitor.post(PAGE, {"hash": sha(PNG), "action": "again"}, htmx=False)).text
        assert LONG in anew
        gone = (await visitor.post(PAGE, {"hash": sha(PNG), "action": "delete"}, htmx=False)).text
        assert LONG not in gone
        assert "Ein Lied." in gone
        missing = (await visitor.post(PAGE, {"hash": sha(PNG), "action": "delete"}, htmx=False)).text
        assert "not in the cache" in missing

    served(tmp_path, test)


def test_whoever_saves_over_a_newer_description_is_told_and_keeps_what_was_typed(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        await fill(visitor, (PNG, "Ein Fluss."))
        version = version_in(await visitor.page(PAGE), PNG)
        await visitor.api("POST", "/multimodal-cache/update", {"hash": sha(PNG), "description": "Von jemand anderem."})
        fields = {"hash": sha(PNG), "version": version, "description": "Von mir.", "action": "save"}
        told = (await visitor.post(PAGE, fields, htmx=False)).text
        assert "changed meanwhile" in told
        assert "Von mir." in told
        assert "Von jemand anderem." in told
        fields["version"] = version_in(told, PNG)
        assert "is saved" in (await visitor.post(PAGE, fields, htmx=False)).text

    served(tmp_path, test)


def test_hostile_descriptions_are_text(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        await fill(visitor, (PNG, HOSTILE), (b"</textarea><script>alert(3)</script>", "</textarea>" + HOSTILE))
        for path in (PAGE, f"{PAGE}?q=alert", f"{PAGE}?q=%22%3E%3Cimg%20src=x%3E"):
            page = await visitor.page(path)
            assert "<script>alert" not in page
            assert "<img src=x" not in page
        assert "alert(2)" in html.unescape(await visitor.page(PAGE))

    served(tmp_path, test)


def test_many_descriptions_come_page_by_page_and_are_found_by_their_words(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        await fill(visitor, *((f"m{number}".encode(), f"Nummer {number:02d} 100%_") for number in range(45)))
        await fill_one_more(visitor)
        pages = [await visitor.page(f"{PAGE}?page={number}") for number in (1, 2, 3)]
        assert [page.count("<section") for page in pages] == [20, 20, 6]
        assert all(len(page) < 300_000 for page in pages)
        assert (await visitor.page(f"{PAGE}?q=Nummer%2007")).count("<section") == 1
        assert (await visitor.page(f"{PAGE}?q=100%25_")).count("<section") == 20
        assert "No description fits" in await visitor.page(f"{PAGE}?q=nirgends")

    async def fill_one_more(visitor: Visitor) -> None:
        current = (await visitor.api("GET", "/multimodal-cache")).json()
        current[base64.b64encode(b"long").decode()] = {"description": "lang " * 30_000}
        assert (await visitor.api("POST", "/multimodal-cache", {"data": current})).status_code == 200

    served(tmp_path, test)


def test_descriptions_are_changed_and_deleted_by_their_hash_over_http(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        await fill(visitor, (PNG, "Ein Fluss."))
        for wrong in ({}, {"hash": 5, "description": "x"}, {"hash": sha(PNG)}, {"hash": sha(PNG), "description": " "}):
            assert (await visitor.api("POST", "/multimodal-cache/update", wrong)).status_code == 400
        late = {"hash": sha(PNG), "description": "x", "expected": "0" * 64}
        assert (await visitor.api("POST", "/multimodal-cache/update", late)).status_code == 409
        unknown = {"hash": sha(b"?"), "description": "x"}
        assert (await visitor.api("POST", "/multimodal-cache/update", unknown)).status_code == 404
        assert (await visitor.api("DELETE", f"/multimodal-cache/{sha(PNG)}")).status_code == 200
        assert (await visitor.api("DELETE", f"/multimodal-cache/{sha(PNG)}")).status_code == 404
        assert (await visitor.api("GET", "/multimodal-cache")).json() == {}

    served(tmp_path, test)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(PNG, "image/png"), (b"<html><script>alert(1)</script>", None), (b"<svg onload=alert(1)>", None), (b"OggS", None)],
)
def test_a_browser_shows_pictures_and_runs_nothing(tmp_path: Path, content: bytes, kind: str | None) -> None:
    async def test(visitor: Visitor) -> None:
        await fill(visitor, (content, "Etwas."))
        answer = await visitor.client.get(f"/admin_api/multimodal-cache/media/{sha(content)}")
        assert answer.content == content
        assert answer.headers["content-type"] == (kind or "application/octet-stream")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert ("attachment" in answer.headers.get("content-disposition", "")) is (kind is None)
        for unknown in (sha(b"?"), "..%2f..%2fx", "x" * 500):
            assert (await visitor.client.get(f"/admin_api/multimodal-cache/media/{unknown}")).status_code == 404

    served(tmp_path, test)
