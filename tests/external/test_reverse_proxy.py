"""The documented nginx configuration, with a real nginx before a real server: streams arrive piece by piece."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.program import LONGEST, Program, started

pytestmark = pytest.mark.external

DOCUMENT = Path(__file__).parents[2] / "docs" / "deploy.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    home = tmp_path_factory.mktemp("home")
    (home / "config.env").write_text("TrustedProxies=127.0.0.1\nIpBlacklist=true\n", encoding="utf-8")
    with started("serve", "--port", "0", cwd=home, environ={"SocketPingSeconds": "0.2"}) as program:
        yield program


@pytest.fixture(scope="module")
def proxy_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nginx") / "vcp.log"


@pytest.fixture(scope="module")
def proxy(server: Program, proxy_log: Path) -> Iterator[int]:
    """The port of an nginx that has the documented block, without its certificate."""
    folder = proxy_log.parent
    found = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    block = re.sub(r"\n\s*ssl_\w+.*", "", found[1]).replace("/var/log/nginx", str(folder))
    block = block.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    block = block.replace("http://127.0.0.1:6005", server.base_url.removesuffix("/v1"))
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\nhttp {{\n{temporary}{block}}}\n",
        encoding="utf-8",
    )
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/homebrew/bin")
    assert program is not None, "nginx is missing; .ci/run installs it"
    process = subprocess.Popen([program, "-p", str(folder), "-c", "nginx.conf"], stdin=subprocess.DEVNULL)
    try:
        last = time.monotonic() + LONGEST
        while not listens(port):
            assert process.poll() is None and time.monotonic() < last
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(LONGEST)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_streamed_answer_comes_through_in_pieces_and_complete(server: Program, proxy: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=LONGEST)
    body = {"model": "vcp-demo", "stream": True, "messages": [{"role": "user", "content": "Tell me about yourself."}]}
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type", "").partition(";")[0]) == (200, "text/event-stream")
    pieces = []
    while piece := answer.read1(1 << 16):
        pieces.append(piece)
    connection.close()
    events = b"".join(pieces).decode()
    assert events.rstrip().endswith("data: [DONE]")
    assert len(pieces) > 3


def test_a_large_request_passes_the_proxy(server: Program, proxy: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=LONGEST)
    text = "x" * (12 * 1024 * 1024)
    body = {"model": "vcp-demo", "messages": [{"role": "user", "content": f"What is 2+2? {text}"}]}
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def test_a_websocket_comes_through_both_ways_and_lives_while_it_is_silent(server: Program, proxy: int) -> None:
    with connect(f"ws://127.0.0.1:{proxy}/VCPlog/VCP_Key={server.key}", proxy=None) as client:
        assert json.loads(client.recv(LONGEST))["type"] == "connection_ack"
        time.sleep(1)  # some pings, which the library answers
        pong = client.ping()
        assert pong.wait(LONGEST)


def test_who_is_refused_sees_why_through_the_proxy(proxy: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{proxy}/VCPlog/VCP_Key=wrong", proxy=None)
    assert refused.value.response.status_code == 401
    assert "error" in json.loads(refused.value.response.body or b"")


def test_keys_in_paths_do_not_reach_the_log_of_the_proxy(server: Program, proxy: int, proxy_log: Path) -> None:
    for path in ("/VCPlog/VCP_Key=secret-1", "/vcplog/vcp_key=secret-2", "/pw=secret-3/images/a.png", "/healthz"):
        connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=LONGEST)
        connection.request("GET", path)
        connection.getresponse().read()
        connection.close()
    last = time.monotonic() + LONGEST
    while "/healthz" not in proxy_log.read_text(encoding="utf-8"):
        assert time.monotonic() < last
        time.sleep(0.05)
    logged = proxy_log.read_text(encoding="utf-8")
    assert "secret" not in logged
    assert server.key not in logged
