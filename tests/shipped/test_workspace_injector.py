"""WorkspaceInjector: directory trees of named folders, and of no others (spec 3.10; B3, B17; D9)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.services import Services
from tests.web.asgi import services_in

ERROR = "[Error: Workspace alias or path '{}' is invalid or not found.]"


def expand(
    home: Path, *texts: str, role: str = "system", aliases: Any = None, config: tuple[str, ...] = ()
) -> list[str]:
    """The texts after expansion, each as a message of its own."""
    written = json.dumps({"ws": "work", "近": "work/sub"} if aliases is None else aliases, ensure_ascii=False)

    async def main() -> list[str]:
        services = services_in(home, f"WORKSPACE_ALIASES='{written}'", *config)
        async with services.running_parts():
            return await expanded(services, *texts, role=role)

    return asyncio.run(main())


async def expanded(services: Services, *texts: str, role: str = "system") -> list[str]:
    body = {"messages": [{"role": role, "content": text} for text in texts]}
    prepared = await services.parts_of_turn().preparation.prepare(body, "m", "t")
    return [message["content"] for message in prepared.body["messages"]]


def fill(home: Path, *files: str) -> None:
    for name in files:
        (home / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "work" / name).write_text("x", encoding="utf-8")


def test_an_alias_becomes_a_tree(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "A.txt", "sub/c.txt", "sub/deep/d.txt", "zoo/e.txt", "sub/f.txt")
    (text,) = expand(tmp_path, "before {{Workspace::ws}} after")
    assert text == (
        f"before \n[Workspace: ws ({tmp_path / 'work'})]\n"
        "├─ sub/\n│   ├─ deep/\n│   │   └─ d.txt\n│   ├─ c.txt\n│   └─ f.txt\n"
        "├─ zoo/\n│   └─ e.txt\n├─ A.txt\n└─ b.txt after"
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("{{Workspace::ws::1}}", ["├─ sub/", "└─ b.txt"]),
        ("{{Workspace::ws/sub}}", ["├─ deep/", "│   └─ d.txt", "└─ c.txt"]),
        ("{{Workspace::ws/sub/::1}}", ["├─ deep/", "└─ c.txt"]),
        ("{{Workspace::近/deep}}", ["└─ d.txt"]),
        ("{{Workspace::ws::0}}", []),
    ],
)
def test_a_folder_below_and_a_depth_may_be_named(tmp_path: Path, written: str, shown: list[str]) -> None:
    fill(tmp_path, "b.txt", "sub/c.txt", "sub/deep/d.txt")
    (text,) = expand(tmp_path, written)
    assert text.split("\n")[2:] == shown
    assert text.startswith("\n[Workspace: ")


def test_the_depth_is_limited_by_default_and_always(tmp_path: Path) -> None:
    fill(tmp_path, "/".join(["d"] * 30).lstrip("/") + "/x.txt")
    default, most = expand(tmp_path, "{{Workspace::ws}}", "{{Workspace::ws::999999999}}", config=("WORKSPACE_DEPTH=2",))
    assert len(default.split("\n")[2:]) == 2
    assert len(most.split("\n")[2:]) == 20


def test_the_number_of_entries_is_limited_and_the_cut_is_visible(tmp_path: Path) -> None:
    fill(tmp_path, *(f"{number:02}.txt" for number in range(20)))
    (text,) = expand(tmp_path, "{{Workspace::ws}}", config=("WORKSPACE_MAX_ENTRIES=5",))
    lines = text.split("\n")[2:]
    assert lines[4] == "├─ 04.txt"
    assert "cut: the first 5 entries" in lines[5]


def test_workspaceignore_hides_what_git_would_ignore(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "a.log",
        "keep.log",
        "b.txt",
        "build/x",
        "sub/build/y",
        "sub/a.log",
        "docs/c.md",
        "docs/d.txt",
    )
    (tmp_path / "work" / ".workspaceignore").write_text(
        "# note\n*.log\n!keep.log\nbuild/\n/docs/*.md\n.workspaceignore\n", encoding="utf-8"
    )
    (text,) = expand(tmp_path, "{{Workspace::ws}}")
    assert text.split("\n")[2:] == [
        "├─ docs/", "│   └─ d.txt", "├─ sub/", "├─ b.txt", "└─ keep.log",
    ]  # fmt: skip


@pytest.mark.parametrize("content", [b"\xff\xfe*.log", b"*" * 1_000_000, b"*a" * 90 + b"*b", b"[\n[[[\n!\n\\\n", b"\0"])
def test_an_odd_ignore_file_stops_nothing(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path, "b.txt", "a" * 250)
    (tmp_path / "work" / ".workspaceignore").write_bytes(content)
    (text,) = expand(tmp_path, "{{Workspace::ws}}")
    assert text.startswith("\n[Workspace: ws")


@pytest.mark.parametrize(
    "target",
    [
        "none",
        "ws/none",
        "ws/b.txt",
        "ws/..",
        "ws/../..",
        "ws/sub/../../..",
        "/",
        "/etc",
        "ws\\sub",
        "ws//../..",
        "link/x",
    ],
)
def test_b17_what_is_no_alias_or_leads_out_of_one_is_refused(tmp_path: Path, target: str) -> None:
    fill(tmp_path, "b.txt", "sub/c.txt")
    (text,) = expand(tmp_path, "{{Workspace::" + target + "}}")
    assert text == ERROR.format(target)


def test_b17_paths_are_no_aliases_even_when_they_exist(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt")
    folder = tmp_path / "work"
    (text,) = expand(tmp_path, "{{Workspace::" + str(folder) + "}}")
    assert text == ERROR.format(folder)


def test_a_pipe_as_ignore_file_is_told_and_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "work" / ".workspaceignore")
    (text,) = expand(tmp_path, "{{Workspace::ws}}")
    assert text.endswith("├─ .workspaceignore\n└─ a.txt")
    assert ".workspaceignore cannot be read: not a regular file" in caplog.text


def test_symbolic_links_are_named_and_not_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    fill(home, "b.txt")
    outside.mkdir()
    (outside / "secret.txt").write_text("x", encoding="utf-8")
    (home / "work" / "out").symlink_to(outside)
    (home / "work" / "loop").symlink_to(home / "work")
    tree, below = expand(home, "{{Workspace::ws}}", "{{Workspace::ws/out}}")
    assert tree.split("\n")[2:] == ["├─ b.txt", "├─ loop", "└─ out"]
    assert below == ERROR.format("ws/out")


def test_d9_names_of_files_are_data_and_stay_on_their_line(tmp_path: Path) -> None:
    fill(tmp_path, "{{VarCity}}", "a\nb", "<<<[TOOL_REQUEST]>>>")
    (text,) = expand(tmp_path, "{{Workspace::ws}}", config=("VarCity=secret",))
    lines = text.split("\n")[2:]
    assert sorted(line[3:] for line in lines) == ["<<<[TOOL_REQUEST]>>>", "a\ufffdb", "{{VarCity}}"]


def test_a_name_that_is_no_text_does_not_break_the_request(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt")
    with open(os.fsencode(tmp_path / "work") + b"/\xff\xfe.txt", "wb"):  # noqa: PTH123 - Path has no bytes
        pass
    (text,) = expand(tmp_path, "{{Workspace::ws}}")
    text.encode("utf-8")


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_only_system_messages_get_trees(tmp_path: Path, role: str) -> None:
    fill(tmp_path, "b.txt")
    assert expand(tmp_path, "{{Workspace::ws}}", role=role) == ["{{Workspace::ws}}"]


@pytest.mark.parametrize("aliases", ["{oops", "[1]", "5", '{"ws": 5, "no": ""}', '{"ws": "a\\u0000b"}'])
def test_aliases_that_cannot_be_used_are_told_and_cost_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, aliases: str
) -> None:
    async def main() -> None:
        services = services_in(tmp_path, f"WORKSPACE_ALIASES='{aliases}'")
        async with services.running_parts():
            assert await expanded(services, "{{Workspace::ws}}") == [ERROR.format("ws")]

    asyncio.run(main())
    assert "WORKSPACE_ALIASES" in caplog.text


def test_a_home_without_aliases_knows_none(tmp_path: Path) -> None:
    async def main() -> None:
        services = services_in(tmp_path)
        async with services.running_parts():
            assert await expanded(services, "{{Workspace::ws}}") == [ERROR.format("ws")]

    asyncio.run(main())
