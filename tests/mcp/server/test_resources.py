"""Resources over the files of a home (mcp.md MCP-28), their completion (MCP-17) and pages (MCP-15)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import pytest
from mcp_types import BlobResourceContents, TextResourceContents

from app.errors import BadRequestError, NotFoundError, VcpError
from app.extend import OfferedResource, OfferedTemplate, ResourceContent, ResourceSource
from app.mcp.server import resource_kinds
from app.mcp.server.resource_kinds import (
    Agents,
    BackgroundTaskResults,
    Described,
    Diaries,
    PluginReadmes,
    ResourceTooLargeError,
    uri_of,
    uri_parts,
)
from app.mcp.server.resources import Resources
from app.prompt.agents import AgentBook
from app.prompt.files import TextFiles
from app.tools.background_results import BackgroundResults, Retention


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "dailynote" / "小克" / "2026-01-01.txt", "一月")
    write(tmp_path / "dailynote" / "小克" / "notes & 100%.MD", "# b")
    write(tmp_path / "dailynote" / "小克" / ".hidden.txt", "h")
    write(tmp_path / "dailynote" / "小克" / "program.py", "p")
    write(tmp_path / "dailynote" / "Nova" / "a.txt", b"\xff\xfe\x00")
    write(tmp_path / "dailynote" / "loose.txt", "l")
    write(tmp_path / "secret" / "key.txt", "secret")
    (tmp_path / "dailynote" / "away").symlink_to(tmp_path / "secret")
    (tmp_path / "dailynote" / "Nova" / "link.txt").symlink_to(tmp_path / "secret" / "key.txt")
    (tmp_path / "dailynote" / "Nova" / "folder.txt").mkdir()
    os.mkfifo(tmp_path / "dailynote" / "Nova" / "pipe.txt")
    write(tmp_path / "agent_map.json", json.dumps({"小克": "k.txt", "Nova": "n.txt", "Out": "../secret/key.txt"}))
    write(tmp_path / "Agent" / "k.txt", "我是小克 {{Date}}")
    write(tmp_path / "Plugin" / "P" / "readme.md", "# P")
    write(tmp_path / "Plugin" / "Q" / "plugin-manifest.json", "{}")
    (tmp_path / "Plugin" / "Q" / "README.md").symlink_to(tmp_path / "secret" / "key.txt")
    return tmp_path


def shelf(home: Path, *brought: ResourceSource, taken: Set[str] = frozenset()) -> Resources:
    results = BackgroundResults(home / "VCPAsyncResults", home / "own", Retention, lambda: 0.0)
    kinds = (
        Diaries(home / "dailynote"),
        Agents(AgentBook(home / "agent_map.json", TextFiles(home / "Agent"))),
        BackgroundTaskResults(results, lambda: {"Video", "Video-Pro"}),
        PluginReadmes(
            lambda: [Described(name, name, home / "Plugin" / name, f"# {name} of its manifest") for name in "PQ"]
        ),
    )
    return Resources(lambda: kinds, lambda: brought, taken)


def read(resources: Resources, uri: str) -> TextResourceContents | BlobResourceContents:
    (content,) = asyncio.run(resources.read(uri)).contents
    assert content.uri == uri
    return content


def text(resources: Resources, uri: str) -> str:
    content = read(resources, uri)
    assert isinstance(content, TextResourceContents)
    return content.text


def test_mcp_28_the_list_holds_what_can_be_read_with_names_in_any_script(home: Path) -> None:
    resources = shelf(home)
    listed = asyncio.run(resources.list(None))
    uris = [resource.uri for resource in listed.resources]
    assert uris == sorted(uris)
    assert all(uri.isascii() and " " not in uri for uri in uris)
    assert {resource.name for resource in listed.resources if resource.uri.startswith("diary:")} >= {
        "小克/2026-01-01.txt",
        "小克/notes & 100%.MD",
        "Nova/a.txt",
    }
    assert not any("hidden" in uri or "program" in uri or "away" in uri or "loose" in uri for uri in uris)
    assert text(resources, uri_of("diary", "小克", "2026-01-01.txt")) == "一月"
    marked = read(resources, uri_of("diary", "小克", "notes & 100%.MD"))
    assert marked.mime_type == "text/markdown"
    assert text(resources, uri_of("agent", "小克")) == "我是小克 {{Date}}"
    assert text(resources, "plugin://P/readme") == "# P"
    templates = asyncio.run(resources.templates(None)).resource_templates
    assert [template.uri_template for template in templates] == [
        "agent://{name}",
        "diary://{notebook}/{file}",
        "plugin://{name}/readme",
        "result://{plugin}/{id}",
    ]


def test_mcp_28_what_is_no_text_is_told_as_bytes(home: Path) -> None:
    content = read(shelf(home), "diary://Nova/a.txt")
    assert isinstance(content, BlobResourceContents)
    assert base64.b64decode(content.blob) == b"\xff\xfe\x00"
    assert content.mime_type == "application/octet-stream"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "diary",
        "diary://",
        "diary:///",
        "diary://小克",
        "diary://Nova/missing.txt",
        "diary://Nova/link.txt",
        "diary://Nova/folder.txt",
        "diary://Nova/pipe.txt",
        "diary://away/key.txt",
        "diary://../secret/key.txt",
        "diary://..%2Fsecret/key.txt",
        "diary://%2E%2E/secret",
        "diary://Nova/..%2F..%2Fsecret%2Fkey.txt",
        "diary://Nova/a.txt%00.txt",
        "diary://Nova/a.txt?x",
        "diary://Nova/a.txt#x",
        "diary://Nova/a.txt/b",
        "diary://%E5%B0%8F%E5%85%8B/.hidden.txt",
        "diary://%E5%B0%8F%E5%85%8B/program.py",
        "diary://%FF/a.txt",
        "diary://%ED%A0%80/a.txt",
        "diary://" + "x" * 5000 + "/a.txt",
        "agent://Out",
        "agent://Nova",
        "agent://nobody",
        "agent://a/b",
        "result://Video/none",
        "result://Video/..%2Fx",
        "plugin://P",
        "plugin://P/other",
        "plugin://none/readme",
        "file:///etc/passwd",
        "http://localhost/",
    ],
)
def test_mcp_28_nothing_stands_behind_other_addresses_and_none_leads_out(home: Path, uri: str) -> None:
    with pytest.raises(NotFoundError):
        asyncio.run(shelf(home).read(uri))


def test_a_readme_that_leads_out_of_its_plugin_is_replaced_by_the_manifest(home: Path) -> None:
    assert text(shelf(home), "plugin://Q/readme") == "# Q of its manifest"


def test_mcp_28_the_largest_resource_is_8_mib(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_kinds.MAX_BYTES == 8 * 1024 * 1024
    monkeypatch.setattr(resource_kinds, "MAX_BYTES", 10)
    write(home / "dailynote" / "Nova" / "ten.txt", "x" * 10)
    write(home / "dailynote" / "Nova" / "eleven.txt", "x" * 11)
    write(home / "VCPAsyncResults" / "Video-1.json", json.dumps({"long": "x" * 10}))
    assert text(shelf(home), "diary://Nova/ten.txt") == "x" * 10
    for uri in ("diary://Nova/eleven.txt", "result://Video/1"):
        with pytest.raises(ResourceTooLargeError):
            asyncio.run(shelf(home).read(uri))


def test_mcp_28_results_of_background_plugins_are_found_by_plugin_and_task(home: Path) -> None:
    folder = home / "VCPAsyncResults"
    for name in ("Video-1.json", "Video-Pro-2.json", "Other-3.json", "Video-.json", "notes.txt", "Video.json"):
        write(folder / name, json.dumps({"status": "Succeed", "name": name}))
    write(folder / "Video-broken.json", "{oops")
    resources = shelf(home)
    uris = {resource.uri for resource in asyncio.run(resources.list(None)).resources}
    assert {uri for uri in uris if uri.startswith("result:")} == {
        "result://Video/1",
        "result://Video-Pro/2",
        "result://Video/broken",
    }
    assert json.loads(text(resources, "result://Video-Pro/2"))["name"] == "Video-Pro-2.json"
    with pytest.raises(NotFoundError):
        asyncio.run(resources.read("result://Video/broken"))


def complete(resources: Resources, template: str, argument: str, value: str, **given: str) -> Any:
    return asyncio.run(resources.complete(template, argument, value, given))


def test_mcp_17_variables_of_templates_are_completed(home: Path) -> None:
    resources = shelf(home)
    diary = "diary://{notebook}/{file}"
    assert complete(resources, diary, "notebook", "").values == ["Nova", "小克"]
    assert complete(resources, diary, "notebook", "n").values == ["Nova"]
    assert complete(resources, diary, "file", "2026", notebook="小克").values == ["2026-01-01.txt"]
    assert complete(resources, diary, "file", "").values == []
    assert complete(resources, diary, "file", "", notebook="../secret").values == []
    assert complete(resources, diary, "other", "").values == []
    assert complete(resources, "agent://{name}", "name", "小").values == ["小克"]
    assert complete(resources, "plugin://{name}/readme", "name", "").values == ["P", "Q"]
    with pytest.raises(NotFoundError):
        complete(resources, "file:///{path}", "path", "")
    for number in range(150):
        write(home / "VCPAsyncResults" / f"Video-{number}.json", "{}")
    many = complete(resources, "result://{plugin}/{id}", "id", "", plugin="Video")
    assert (len(many.values), many.total, many.has_more) == (100, 150, True)
    assert complete(resources, "result://{plugin}/{id}", "plugin", "v").values == ["Video"]


def test_mcp_15_pages_fit_together_and_unknown_cursors_are_refused(home: Path) -> None:
    for number in range(450):
        write(home / "dailynote" / "Many" / f"{number:03}.txt", "")
    resources = shelf(home)
    found: list[str] = []
    cursor: str | None = None
    sizes = []
    while True:
        page = asyncio.run(resources.list(cursor))
        sizes.append(len(page.resources))
        found += [resource.uri for resource in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sizes[:2] == [200, 200] and found == sorted(set(found)) and len(found) > 450
    for wrong in ("nonsense", "", "bm8="):
        with pytest.raises(BadRequestError):
            asyncio.run(resources.list(wrong))


def test_addresses_and_their_parts_are_each_others_inverse() -> None:
    for parts in (("a", "b"), ("小 克", "100%/x\\?#"), ("\udcff",), ("\ud800", "x")):
        assert uri_parts(uri_of("x", *parts)) == ("x", parts)


def test_names_that_are_no_text_do_not_cost_the_list(home: Path) -> None:
    os.close(os.open(os.fsencode(home / "dailynote" / "Nova") + b"/\xff.txt", os.O_CREAT | os.O_WRONLY))
    resources = shelf(home)
    listed = asyncio.run(resources.list(None))
    listed.model_dump_json()
    (odd,) = [
        resource for resource in listed.resources if resource.name.startswith("Nova/\ufffd") or "%ED" in resource.uri
    ]
    assert text(resources, odd.uri) == ""


# --- of plugins -------------------------------------------------------------------------------------------------------


class Orders:
    """A plugin's resources; ``fault`` is what it raises in place of every answer."""

    def __init__(
        self, scheme: str = "orders", content: ResourceContent | None = None, fault: VcpError | None = None
    ) -> None:
        self.scheme = scheme
        self._content = content
        self._fault = fault

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    async def resources(self) -> Sequence[OfferedResource]:
        self._check()
        return [OfferedResource(f"{self.scheme}://1", "one \ud800", "text/csv", "One", "the first")]

    async def templates(self) -> Sequence[OfferedTemplate]:
        self._check()
        return [OfferedTemplate(f"{self.scheme}://{{id}}", "order", "any", "text/csv")]

    async def read(self, uri: str) -> ResourceContent | None:
        self._check()
        return self._content

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        return ["10", "1", "2"]


def test_mcp_28_what_plugins_bring_is_listed_read_and_completed_beside_our_own(home: Path) -> None:
    resources = shelf(home, Orders(), Orders(content=ResourceContent("a,b", "text/csv")))
    listed = {one.uri: one for one in asyncio.run(resources.list(None)).resources}
    one = listed["orders://1"]
    assert (one.name, one.title, one.description, one.mime_type) == ("one ?", "One", "the first", "text/csv")
    assert list(listed) == sorted(listed)
    assert "agent://Nova" in listed
    templates = [template.uri_template for template in asyncio.run(resources.templates(None)).resource_templates]
    assert templates == sorted(templates)
    assert templates.count("orders://{id}") == 1
    content = read(resources, "orders://7")
    assert isinstance(content, TextResourceContents)
    assert (content.text, content.mime_type) == ("a,b", "text/csv")
    assert asyncio.run(resources.complete("orders://{id}", "id", "1", {})).values == ["1", "10"]
    with pytest.raises(NotFoundError):
        asyncio.run(resources.complete("orders://{other}", "other", "1", {}))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (ResourceContent("{}", "application/ld+json"), "{}"),
        (ResourceContent("half \ud800", "text/plain"), "half ?"),
        (ResourceContent(b"\xff", "image/png"), base64.b64encode(b"\xff").decode()),
        (ResourceContent(b"plain", "text/plain"), "plain"),
    ],
)
def test_a_text_of_a_plugin_is_text_whatever_its_type_and_bytes_are_base64(
    home: Path, given: ResourceContent, shown: str
) -> None:
    content = read(shelf(home, Orders(content=given)), "orders://1")
    assert (content.text if isinstance(content, TextResourceContents) else content.blob) == shown


def test_one_plugin_that_fails_is_left_out_of_the_lists_and_told_when_it_is_read(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    resources = shelf(home, Orders("bad", fault=VcpError("out of paper")), Orders())
    uris = [one.uri for one in asyncio.run(resources.list(None)).resources]
    assert "orders://1" in uris
    assert not [uri for uri in uris if uri.startswith("bad")]
    assert "bad://… of a plugin are not listed: out of paper" in caplog.text
    assert len(asyncio.run(resources.templates(None)).resource_templates) == 5
    with pytest.raises(VcpError, match="out of paper"):
        asyncio.run(resources.read("bad://1"))


def test_what_is_ours_is_not_for_plugins_and_there_is_a_largest_size(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = Orders("agent", ResourceContent("false"))
    resources = Resources(lambda: (), lambda: [false], {"agent"})
    assert asyncio.run(resources.list(None)).resources == []
    for uri in ("agent://Nova", "orders://1", "orders", ""):
        with pytest.raises(NotFoundError):
            asyncio.run(resources.read(uri))
    monkeypatch.setattr("app.mcp.server.resources.MAX_BYTES", 3)
    with pytest.raises(ResourceTooLargeError):
        asyncio.run(shelf(home, Orders(content=ResourceContent("1234"))).read("orders://1"))


def test_a_plugin_that_hangs_holds_no_list_up(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Hangs(Orders):
        async def resources(self) -> Sequence[OfferedResource]:
            await asyncio.Event().wait()
            return ()

    monkeypatch.setattr("app.mcp.server.resources.LIST_SECONDS", 0.02)
    resources = shelf(home, Hangs("slow"), Hangs("slower"), Orders())
    assert "orders://1" in [one.uri for one in asyncio.run(resources.list(None)).resources]
    assert "slower://… of a plugin are not listed: it takes longer" in caplog.text
