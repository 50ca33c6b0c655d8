"""Files of a project as resources (mcp.md MCP-28)."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

import pytest
from mcp_types import BlobResourceContents, TextResourceContents

from app.config.snapshot import load
from app.errors import NotFoundError
from app.mcp.server.file_resources import ProjectFiles
from app.mcp.server.resource_kinds import MAX_BYTES, ResourceTooLargeError
from app.mcp.server.resources import Resources
from app.services.mcp_shelves import files_root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / ".git").mkdir(parents=True)
    (root / "src" / "天气 1.py").write_text("print('天气')", encoding="utf-8")
    (root / "src" / "data.json").write_text("{}")
    (root / "logo.png").write_bytes(b"\x89PNG\xff")
    (root / "odd.xyz").write_bytes(b"\xff\x00")
    for secret in (root / "config.env", root / ".env", root / "src" / ".git" / "config", tmp_path / "outside.txt"):
        secret.write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "env.txt").symlink_to(root / "config.env")
    (root / "git.txt").symlink_to(root / "src" / ".git" / "config")
    (root / "seen.txt").symlink_to(root / "src" / "data.json")
    (root / "away").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


def shelf(root: Path | None) -> Resources:
    return Resources(lambda: (ProjectFiles(lambda: root),))


def read(resources: Resources, path: Path) -> TextResourceContents | BlobResourceContents:
    (content,) = asyncio.run(resources.read(path.as_uri())).contents
    return content


def test_mcp_28_files_are_text_or_bytes_by_what_they_are(folder: Path) -> None:
    resources = shelf(folder)
    source = read(resources, folder / "src" / "天气 1.py")
    assert isinstance(source, TextResourceContents) and source.text == "print('天气')"
    assert (read(resources, folder / "src" / "data.json").mime_type) == "application/json"
    assert isinstance(read(resources, folder / "seen.txt"), TextResourceContents)  # a link that stays inside
    for name, media, data in (
        ("logo.png", "image/png", b"\x89PNG\xff"),
        ("odd.xyz", "application/octet-stream", b"\xff\x00"),
    ):
        content = read(resources, folder / name)
        assert isinstance(content, BlobResourceContents)
        assert (content.mime_type, base64.b64decode(content.blob)) == (media, data)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "/",
        "/missing",
        "/src",
        "/pipe",
        "/config.env",
        "/env.txt",
        "/git.txt",
        "/.env",
        "/src/.git/config",
        "/link.txt",
        "/away/outside.txt",
        "/../outside.txt",
        "/%2E%2E/outside.txt",
        "/src%2Fdata.json",
        "/src/data.json%00",
        "/src/data.json?x",
        "/" + "x" * 5000,
        "x/outside.txt",
    ],
)
def test_mcp_28_nothing_outside_of_the_folder_and_nothing_hidden_is_read(folder: Path, rest: str) -> None:
    with pytest.raises(NotFoundError):
        asyncio.run(shelf(folder).read(folder.as_uri() + rest))


def test_mcp_28_a_relative_or_foreign_address_is_none(folder: Path) -> None:
    for uri in ("file://src/data.json", "file:///etc/passwd", "file:///", "file://host" + str(folder / "logo.png")):
        with pytest.raises(NotFoundError):
            asyncio.run(shelf(folder).read(uri))


def test_mcp_28_without_a_folder_there_is_nothing_and_a_large_file_is_told(folder: Path) -> None:
    with pytest.raises(NotFoundError):
        read(shelf(None), folder / "logo.png")
    with (folder / "large.txt").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ResourceTooLargeError):
        read(shelf(folder), folder / "large.txt")


def test_mcp_17_paths_are_completed_and_never_listed(folder: Path) -> None:
    resources = shelf(folder)
    assert asyncio.run(resources.list(None)).resources == []
    begun = str(folder)[1:]
    found = asyncio.run(resources.complete(ProjectFiles.template, "path", begun, {})).values
    names = ("logo.png", "odd.xyz", "src/data.json", "src/天气 1.py")
    assert found == sorted(f"{begun}/{name}" for name in names)
    assert asyncio.run(resources.complete(ProjectFiles.template, "other", "", {})).values == []


def test_the_folder_is_that_of_the_settings_below_the_home(tmp_path: Path) -> None:
    assert files_root(load(tmp_path, {})) is None
    assert files_root(load(tmp_path, {"MCPFilesRoot": "docs"})) == tmp_path / "docs"
    assert files_root(load(tmp_path, {"MCPFilesRoot": "/srv/docs"})) == Path("/srv/docs")
