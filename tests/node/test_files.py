"""Files for the main server: below the shared folders only, whole or in pieces (spec 6.4, D62, B3)."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest

from app.node.files import SharedFileError, SharedFiles, file_path
from tests.node.bench import main_end, running_node
from tests.server import run


def read(roots: list[Path], max_bytes: int = 10_000, **arguments: Any) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        return dict(await SharedFiles(lambda: roots, lambda: max_bytes, "shed").answer(arguments))

    return asyncio.run(ask())


def refused(roots: list[Path], max_bytes: int = 10_000, **arguments: Any) -> str:
    with pytest.raises(SharedFileError) as error:
        read(roots, max_bytes, **arguments)
    return error.value.message


def test_a_shared_file_comes_whole_with_its_type(tmp_path: Path) -> None:
    """Spec 6.4: {status, fileData, mimeType}."""
    (tmp_path / "a b 图.png").write_bytes(b"\x89PNG")
    url = (tmp_path / "a b 图.png").as_uri()
    assert "%" in url
    whole = {"status": "success", "fileData": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}
    assert read([tmp_path], fileUrl=url) == whole
    assert read([tmp_path], fileUrl=f"file://{tmp_path}/a b 图.png") == whole
    assert read([tmp_path], fileUrl=url.replace("file:///", "FILE://localhost/")) == whole
    assert read([tmp_path], fileUrl=url.replace("file:///", "file://Shed/")) == whole


def test_nothing_is_shared_by_default(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert "NodeFileRoots" in refused([], fileUrl=(tmp_path / "a").as_uri())


@pytest.mark.parametrize(
    "way", ["shared/../secret", "shared/%2e%2e/secret", "shared/link", "shared/folder/secret", "shared2/a"]
)
def test_no_way_leads_out_of_a_shared_folder(tmp_path: Path, way: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "shared2").mkdir()
    (tmp_path / "shared2" / "a").write_text("x")
    (tmp_path / "secret").write_text("s3cret")
    (shared / "link").symlink_to(tmp_path / "secret")
    (shared / "folder").symlink_to(tmp_path)
    assert "not below" in refused([shared], fileUrl=f"file://{tmp_path}/{way}")


def test_links_inside_a_shared_folder_and_a_shared_link_work(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a.txt").write_text("x")
    (real / "b.txt").symlink_to("a.txt")
    (tmp_path / "shared").symlink_to(real)
    assert read([tmp_path / "shared"], fileUrl=f"file://{tmp_path}/shared/b.txt")["mimeType"] == "text/plain"


def test_what_is_no_regular_file_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused([tmp_path], fileUrl=f"file://{tmp_path}/pipe")
    assert "no regular file" in refused([tmp_path], fileUrl=f"file://{tmp_path}")
    assert "no regular file" in refused([Path("/dev")], fileUrl="file:///dev/zero")
    assert "cannot be read" in refused([tmp_path], fileUrl=f"file://{tmp_path}/nothing")


@pytest.mark.parametrize(
    "url",
    [
        "http://a/b",
        "/etc/passwd",
        "file://server/share/a",
        "file:////server/share/a",
        "file:///%5C%5Cserver/a",
        "file://",
        "file:///a%00b",
        "file:///%ff",
        "file:///%2Fserver/a",
        "x" * 10_000,
        "",
        "file://shed",
    ],
)
def test_what_is_no_file_of_this_machine_is_refused(tmp_path: Path, url: str) -> None:
    assert refused([Path("/")], fileUrl=url)


def test_windows_paths_are_understood_where_they_exist() -> None:
    assert str(file_path("file:///C:/a%20b/c", "shed", windows=True)) == "C:/a b/c"
    assert str(file_path("file:///C:/a", "shed")) == "/C:/a"


@pytest.mark.parametrize("url", [None, 7, ["file:///a"], {}])
def test_an_address_of_the_wrong_type_is_refused(tmp_path: Path, url: Any) -> None:
    assert "fileUrl" in refused([tmp_path], fileUrl=url)


def test_a_file_that_is_too_long_for_a_message_is_refused_whole_and_given_in_pieces(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10
    path = tmp_path / "big"
    path.write_bytes(data)
    assert "2560" in refused([tmp_path], 1000, fileUrl=path.as_uri())
    got, versions = b"", set()
    while len(got) < len(data):
        piece = read([tmp_path], 1000, fileUrl=path.as_uri(), offset=len(got), length=5000)
        assert (piece["offset"], piece["size"], piece["status"]) == (len(got), 2560, "success")
        got += base64.b64decode(piece["fileData"])
        versions.add(piece["version"])
    assert got == data
    assert len(versions) == 1
    path.write_bytes(data + b"x")
    assert read([tmp_path], 1000, fileUrl=path.as_uri(), offset=0, length=1)["version"] not in versions
    assert read([tmp_path], 1000, fileUrl=path.as_uri(), offset=10_000, length=1)["fileData"] == ""


@pytest.mark.parametrize(
    "piece",
    [
        {"offset": -1, "length": 1},
        {"offset": 0},
        {"offset": "0", "length": 1},
        {"offset": True, "length": 1},
        {"offset": 0, "length": 2**60},
        {"offset": 1.5, "length": 1},
    ],
)
def test_a_piece_that_is_none_is_refused(tmp_path: Path, piece: dict[str, Any]) -> None:
    (tmp_path / "a").write_text("x")
    assert "offset" in refused([tmp_path], fileUrl=f"file://{tmp_path}/a", **piece)


def test_a_main_server_gets_files_over_the_line(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "a.txt").write_text("from afar")
    config = [f"NodeFileRoots={shared}"]

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path / "home", main.url, config=config):
            link, _ = await main.introduced()
            answer = await link.call("1", "internal_request_file", fileUrl=(shared / "a.txt").as_uri())
            assert base64.b64decode(answer["result"]["fileData"]) == b"from afar"
            answer = await link.call("2", "internal_request_file", fileUrl="file:///etc/passwd")
            assert answer["status"] == "error" and "not below" in answer["error"]

    run(test())
