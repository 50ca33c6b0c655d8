"""The environment of MCP servers that we start (D72, P90)."""

from __future__ import annotations

from app.mcp.client.environment import server_environment
from app.mcp.client.server_entry import ServerEntry, ServerKind

ENVIRON = {
    "PATH": "/bin",
    "HOME": "/home/a",
    "LC_ALL": "C",
    "XDG_DATA_HOME": "/x",
    "https_proxy": "http://p",
    "SSL_CERT_FILE": "/c",
    "SystemRoot": "C:\\Windows",
    "API_Key": "secret",
    "VarCity": "here",
    "OTHER": "1",
    "BASH_FUNC_x": "() { :; }",
}


def ours(name: str) -> bool:
    return name in ("API_Key", "VarCity", "PATH")


def made(**entry: object) -> dict[str, str]:
    return server_environment(ServerEntry("s", ServerKind.STDIO, command="x", **entry), ENVIRON, ours)  # type: ignore[arg-type]


def test_d72_a_server_sees_a_safe_part_and_what_its_entry_lists() -> None:
    found = made(env={"TOKEN": "t", "PATH": "/mine"})
    safe = {"HOME", "LC_ALL", "XDG_DATA_HOME", "https_proxy", "SSL_CERT_FILE", "SystemRoot"}
    assert found.keys() == safe | {"TOKEN", "PATH"}
    assert found["PATH"] == "/mine" and found["HOME"] == "/home/a"


def test_p90_there_is_a_path_and_a_home_even_when_env_is_set() -> None:
    found = made(env={"A": "b"})
    assert found["PATH"] == "/bin" and found["HOME"] == "/home/a" and found["A"] == "b"


def test_d72_all_of_the_parents_can_be_had_but_for_what_is_ours() -> None:
    found = made(inherit_env=True)
    assert found["OTHER"] == "1" and "API_Key" not in found and "VarCity" not in found
    assert found["PATH"] == "/bin"  # safe in any case
    assert "BASH_FUNC_x" not in found


def test_d72_a_key_of_ours_gets_there_when_it_is_listed() -> None:
    assert made(env={"API_Key": "secret"})["API_Key"] == "secret"


def test_what_no_process_can_be_given_is_left_out() -> None:
    env = {"": "x", "A=B": "x", "N\0": "x", "V": "\0", "LONG": "x" * 200_000, "HALF": "\udc80\ud800", "GOOD": "x"}
    found = made(env=env)
    assert "GOOD" in found and not found.keys() & {"", "A=B", "N\0", "V", "LONG", "HALF"}
