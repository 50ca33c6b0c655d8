"""ImageServer and FileServer over real sockets: keys, static semantics, containment (spec 1.11, R18; P50)."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server import KEY, Running, running


def run_server(
    home: Path, work: Callable[[Running, httpx.AsyncClient], Coroutine[Any, Any, None]], *config: str
) -> None:
    """Run ``work`` with a server and a client that has no key."""

    async def main() -> None:
        async with (
            running(home, "http://127.0.0.1:9", config=config or ("Image_Key=pic-key", "File_Key=doc-key")) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
        ):
            await work(server, client)

    asyncio.run(main())


def fill(home: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_r18_a_wrong_key_is_refused_in_the_words_that_clients_know(tmp_path: Path) -> None:
    fill(tmp_path, {"image/a.png": "png", "file/a.pdf": "pdf"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        for path, said in (
            ("/pw=wrong/images/a.png", "Unauthorized: Invalid key for image access."),
            ("/pw=doc-key/images/a.png", "Unauthorized: Invalid key for image access."),
            ("/pw=PIC-KEY/images/a.png", "Unauthorized: Invalid key for image access."),
            ("/pw=wrong/files/a.pdf", "Unauthorized: Invalid key for file access."),
            ("/pw=pic-key/files/none", "Unauthorized: Invalid key for file access."),
        ):
            answered = await client.get(path)
            assert (answered.status_code, answered.text) == (401, said), path
            assert answered.headers["content-type"].startswith("text/plain")

    run_server(tmp_path, work)


def test_a_path_without_pw_needs_the_servers_key_and_is_then_told_what_is_wrong(tmp_path: Path) -> None:
    fill(tmp_path, {"image/a.png": "png"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        assert (await client.get("/pic-key/images/a.png")).status_code == 401
        told = await server.client.get("/pic-key/images/a.png")
        assert told.status_code == 400
        assert told.headers["content-type"].startswith("text/plain")

    run_server(tmp_path, work)


def test_without_an_image_key_there_is_no_route_and_without_a_file_key_it_is_a_configuration_error(
    tmp_path: Path,
) -> None:
    fill(tmp_path, {"image/a.png": "png", "file/a.pdf": "pdf"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        for key in ("undefined", "x"):
            assert (await server.client.get(f"/pw={key}/images/a.png")).status_code == 404
            missing = await client.get(f"/pw={key}/files/a.pdf")
            assert missing.status_code == 500
            assert missing.headers["content-type"].startswith("text/plain")
            assert "File_Key" in missing.text

    run_server(tmp_path, work, "ShowVCP=false")


def test_d37_the_settings_file_of_the_module_for_node_wins_where_ours_serves_in_its_place(tmp_path: Path) -> None:
    fill(tmp_path, {"image/a.png": "png", "Plugin/ImageServer/config.env": "Image_Key=own-key\n"})
    node = json.dumps(
        {
            "name": "ImageServer",
            "pluginType": "service",
            "entryPoint": {"type": "nodejs", "script": "image-server.js"},
            "communication": {"protocol": "direct"},
        }
    )
    fill(tmp_path, {"Plugin/ImageServer/plugin-manifest.json": node})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        assert (await client.get("/pw=own-key/images/a.png")).text == "png"
        assert (await client.get("/pw=pic-key/images/a.png")).status_code == 401
        assert server.services.found_plugins.image_key == "own-key"

    run_server(tmp_path, work)


@pytest.mark.parametrize("path", ["/PW=pic-key/Images/a.png", "/pw=pic-key/images/a.png", "//pw=pic-key//images/a.png"])
def test_fixed_parts_may_be_written_in_any_case_names_may_not(tmp_path: Path, path: str) -> None:
    fill(tmp_path, {"image/a.png": "png"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        url = urlsplit(server.url)
        assert (await asyncio.to_thread(raw_get, url.hostname, url.port, path))[0] == 200
        assert (await client.get("/pw=pic-key/images/A.png")).status_code == 404

    run_server(tmp_path, work)


def raw_get(host: str | None, port: int | None, path: str, **headers: str) -> tuple[int, bytes]:
    """A request whose path is sent as it is."""
    connection = http.client.HTTPConnection(host or "", port, timeout=10)
    connection.putrequest("GET", path, skip_host=False)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_files_have_the_headers_and_conditions_of_static_files(tmp_path: Path) -> None:
    fill(tmp_path, {"image/表情包/笑.png": b"0123456789", "image/x.unknown": "x"})
    path = "/pw=pic-key/images/表情包/笑.png"

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        whole = await client.get(path)
        assert (whole.status_code, whole.content) == (200, b"0123456789")
        assert whole.headers["content-type"] == "image/png"
        assert whole.headers["accept-ranges"] == "bytes"
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert whole.headers["cache-control"] == "public, max-age=0"
        etag, modified = whole.headers["etag"], whole.headers["last-modified"]
        head = await client.head(path)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "10")
        for headers in (
            {"If-None-Match": etag},
            {"If-None-Match": f'"other", W/{etag}'},
            {"If-None-Match": "*"},
            {"If-Modified-Since": modified},
        ):
            same = await client.get(path, headers=headers)
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
        for headers in (
            {"If-None-Match": '"other"'},
            {"If-None-Match": '"other"', "If-Modified-Since": modified},
            {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
            {"If-Modified-Since": "nonsense"},
        ):
            assert (await client.get(path, headers=headers)).status_code == 200
        part = await client.get(path, headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
        assert (await client.get(path, headers={"Range": "bytes=-3"})).content == b"789"
        assert (await client.get(path, headers={"Range": "bytes=2-4", "If-Range": '"other"'})).status_code == 200
        assert (await client.get(path, headers={"Range": "bytes=99-"})).status_code == 416
        unknown = await client.get("/pw=pic-key/images/x.unknown")
        assert unknown.headers["content-type"] == "application/octet-stream"
        assert (await client.post(path)).status_code in (404, 405)

    run_server(tmp_path, work)


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.xhtml", "a.xml"])
def test_what_a_browser_would_run_is_put_into_a_sandbox(tmp_path: Path, name: str) -> None:
    fill(tmp_path, {f"image/{name}": "<script>1</script>", "image/a.png": "png"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        answered = await client.get(f"/pw=pic-key/images/{name}")
        assert answered.headers["content-security-policy"] == "sandbox"
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert "content-security-policy" not in (await client.get("/pw=pic-key/images/a.png")).headers

    run_server(tmp_path, work)


def test_folders_lead_to_their_address_with_a_slash_and_to_their_index(tmp_path: Path) -> None:
    fill(
        tmp_path, {"image/a b/index.html": "index", "image/index.html": "root", "image/none/x": "x", "image/f.png": "f"}
    )

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        moved = await client.get("/pw=pic-key/images/a b")
        assert (moved.status_code, moved.headers["location"]) == (301, "/pw=pic-key/images/a%20b/")
        assert (await client.get(moved.headers["location"])).text == "index"
        assert (await client.get("/pw=pic-key/images/")).text == "root"
        assert (await client.get("/pw=pic-key/images/none/")).status_code == 404
        assert (await client.get("/pw=pic-key/images/f.png/")).status_code == 404
        assert (await client.get("/pw=pic-key/images/f.png/x")).status_code == 404

    run_server(tmp_path, work)


def test_hidden_names_are_not_there_for_pictures_and_forbidden_for_files(tmp_path: Path) -> None:
    fill(tmp_path, {"image/.secret": "s", "image/.git/x": "s", "file/.secret": "s", "file/.git/x": "s"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        for name in (".secret", ".git/x", ".none"):
            assert (await client.get(f"/pw=pic-key/images/{name}")).status_code == 404
            assert (await client.get(f"/pw=doc-key/files/{name}")).status_code == 403

    run_server(tmp_path, work)


def test_the_file_server_answers_before_the_picture_server_and_what_it_lacks_falls_through(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "file/a.pdf": "pdf",
            "file/sub/index.html": "index of the picture server",
            "file/doubaogen/own.txt": "hidden by the virtual folder",
            "image/doubaogen/pic.png": "doubao",
            "image/fluxgen/pic.png": "flux",
            "image/other/pic.png": "other",
        },
    )

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        async def got(path: str) -> tuple[int, str]:
            answered = await client.get(f"/pw=doc-key/files/{path}")
            return answered.status_code, answered.text

        assert await got("a.pdf") == (200, "pdf")
        assert await got("doubaogen/pic.png") == (200, "doubao")
        assert await got("fluxgen/pic.png") == (200, "flux")
        assert await got("doubaogen/own.txt") == (200, "hidden by the virtual folder")
        assert (await got("other/pic.png"))[0] == 404
        assert await got("sub/") == (200, "index of the picture server")
        assert (await got("none"))[0] == 404

    run_server(tmp_path, work)


def test_the_file_server_alone_has_no_index(tmp_path: Path) -> None:
    fill(
        tmp_path, {"file/sub/index.html": "x", "file/a.txt": "a", "Plugin/ImageServer/plugin-manifest.json.block": "{}"}
    )

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        assert (await client.get("/pw=doc-key/files/sub/")).status_code == 404
        assert (await client.get("/pw=doc-key/files/a.txt")).text == "a"
        assert (await client.get("/pw=pic-key/images/")).status_code == 401  # no route: the server's key is asked for

    run_server(tmp_path, work)


ESCAPES = [
    "../config.env",
    "%2e%2e/config.env",
    "%2e%2e%2fconfig.env",
    "..%2fconfig.env",
    "..%5cconfig.env",
    "....//config.env",
    "sub/../../config.env",
    "sub/%2e%2e/%2e%2e/config.env",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "a.png%00.html",
    "%00",
    "C:%5cwindows",
    "link/secret.txt",
    "secret-link.txt",
    "circle",
    "x" * 300,
    "/".join("d" * 200),
    "%ff%fe",
    "pipe",
    "sibling-link/x",
]


@pytest.mark.parametrize("route", ["pw=pic-key/images", "pw=doc-key/files"])
def test_b3_nothing_outside_of_the_folder_is_ever_served(tmp_path: Path, route: str) -> None:
    home = tmp_path / "home"
    outside = tmp_path / "outside"
    fill(tmp_path, {"outside/secret.txt": "SECRET", "home/image-sibling/x": "SECRET"})
    for folder in ("image", "file"):
        fill(home, {f"{folder}/a.png": "png", f"{folder}/sub/b.png": "b"})
        (home / folder / "link").symlink_to(outside)
        (home / folder / "secret-link.txt").symlink_to(outside / "secret.txt")
        (home / folder / "inner-link.png").symlink_to(home / folder / "a.png")
        (home / folder / "sibling-link").symlink_to(home / "image-sibling")
        (home / folder / "circle").symlink_to(home / folder / "circle")
        os.mkfifo(home / folder / "pipe")

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        url = urlsplit(server.url)
        for path in ESCAPES:
            status, body = await asyncio.to_thread(raw_get, url.hostname, url.port, f"/{route}/{path}")
            assert status in (400, 401, 403, 404), path
            assert b"SECRET" not in body
            assert KEY.encode() not in body
            assert b"root:" not in body
        assert (await client.get(f"/{route}/inner-link.png")).text == "png"

    run_server(home, work)


def test_p50_dots_inside_a_name_and_names_that_begin_alike_are_no_escape(tmp_path: Path) -> None:
    fill(tmp_path, {"file/v1..2.txt": "dots", "file/a%2fb.txt": "percent", "file/q?x.txt": "mark"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        assert (await client.get("/pw=doc-key/files/v1..2.txt")).text == "dots"
        assert (await client.get("/pw=doc-key/files/a%252fb.txt")).text == "percent"
        assert (await client.get("/pw=doc-key/files/q%3Fx.txt")).text == "mark"

    run_server(tmp_path, work)


def test_folders_that_are_removed_while_the_server_runs_are_no_fault(tmp_path: Path) -> None:
    async def work(server: Running, client: httpx.AsyncClient) -> None:
        (tmp_path / "image").rmdir()
        assert (await client.get("/pw=pic-key/images/a.png")).status_code == 404
        (tmp_path / "image").mkdir()
        fill(tmp_path, {"image/a.png": "png"})
        assert (await client.get("/pw=pic-key/images/a.png")).text == "png"

    run_server(tmp_path, work)


def test_a_key_in_chinese_or_with_signs_is_compared_as_it_is(tmp_path: Path) -> None:
    fill(tmp_path, {"image/a.png": "png"})

    async def work(server: Running, client: httpx.AsyncClient) -> None:
        assert (await client.get("/pw=钥匙 1%2B/images/a.png")).text == "png"
        assert (await client.get("/pw=钥匙/images/a.png")).status_code == 401

    run_server(tmp_path, work, 'Image_Key="钥匙 1+"', "File_Key=x")
