"""``docs/security.md`` claims nothing that the code does not do: its settings exist, and its numbers are the code's."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode

from app.config.keys import strong_value
from app.config.live_file import LOOK_SECONDS
from app.config.settings import names, read
from app.extend import Access
from app.hub.nodes.key_file import NODE_KEYS_FILE
from app.tools.callback_tokens import TOKEN_BYTES
from app.web import admin_access, blocking, body, connection
from app.web.app import OWN_ACCESS
from app.web.mcp import MCP_PATH
from app.web.mcp_oauth import WELL_KNOWN
from tests.program import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def cells(row_begins: str) -> str:
    """The row of a table that begins so."""
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| {row_begins} |")]
    return row


def test_every_setting_in_the_tables_exists() -> None:
    plugin_keys = {"WORKSPACE_ALIASES", "FolderDigestRoots", "SciCalculatorSeconds"}
    tables = TEXT.partition("## What protects")[2].partition("## What is not protected")[0]
    named = {
        name
        for row in re.findall(r"^\| .+ \|$", tables, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row[1:-1].split("|")[-1])
    }
    assert len(named) > 30
    assert sorted(named - set(names()) - plugin_keys) == []


def test_the_numbers_are_those_of_the_code() -> None:
    key_bytes = len(urlsafe_b64decode(f"{strong_value()}="))
    assert f"of {key_bytes * 8} bits" in cells("A key in every case")
    assert f"a token of {TOKEN_BYTES * 8} bits" in cells("Callbacks")
    keys = f"{blocking.KEY_FAILURES} wrong keys within {blocking.KEY_WINDOW_SECONDS / 60:g} minutes"
    assert f"{keys} block an address for {blocking.KEY_BLOCK_SECONDS / 60:g}." in cells("Guessing")
    assert (blocking.TOOL_FAILURES, blocking.TOOL_WINDOW_SECONDS) == (5, 3600)
    assert "five failed calls within an hour" in cells("Misuse of `/v1/human/tool`")
    assert (admin_access.FAILURES, admin_access.WINDOW_SECONDS, admin_access.BLOCK_SECONDS) == (5, 900, 1800)
    locked = "five wrong passwords within 15 minutes lock an address (of IPv6 its /64) out for 30"
    assert locked in cells("Administrators")
    floods = cells("Floods")
    assert f"{connection.MAX_HEAD_BYTES // 1024} KiB and {connection.HEAD_SECONDS:g} s for a head" in floods
    assert f"{body.SILENCE_SECONDS:g} s of silence in a body, {connection.SEND_SECONDS:g} s for a client" in floods


def test_the_numbers_of_websockets_are_those_of_the_code() -> None:
    default, _ = read({})
    key_bytes = len(urlsafe_b64decode(f"{strong_value()}="))
    assert f"{key_bytes * 8} bits each" in cells("Keys of nodes")
    assert f"`{NODE_KEYS_FILE.as_posix()}`, mode 0600" in cells("Keys of nodes")
    assert LOOK_SECONDS == 1
    assert "within a second" in cells("Keys of nodes")
    floods = cells("Floods over WebSockets")
    assert f"{default.socket_max_connections:,} connections" in floods
    assert (
        f"{default.socket_frames_per_second} messages a second of at most {default.socket_max_frame_mb} MiB (nodes "
        f"{default.node_max_frame_mb}, tool clients {default.tool_socket_frame_mb})" in floods
    )
    assert f"{default.socket_queue_mb} MiB may wait" in floods
    assert f"{default.socket_incoming_mb} MiB of unfinished messages" in floods
    port = cells("The port of tool clients")
    assert default.tool_socket_port == 0
    assert (
        f"{default.tool_socket_max_connections} connections, {default.tool_socket_frames_per_second} messages" in port
    )


def test_all_that_is_open_to_everybody_is_named() -> None:
    (everybody,) = [line for line in TEXT.splitlines() if line.startswith("| **Everybody else** |")]
    open_paths = {path for path, access in OWN_ACCESS.items() if access is Access.OPEN}
    assert open_paths | {WELL_KNOWN, WELL_KNOWN + MCP_PATH} == set(re.findall(r"`(/[^`]+)`", everybody))


def test_the_origin_that_lets_no_page_in_is_one_that_the_setting_takes() -> None:
    (origin,) = re.findall(r"if you use none, `([^`]+)`", TEXT)
    settings, complaints = read({"CorsOrigins": origin})
    assert (settings.cors_origins, list(complaints)) == ((origin,), [])
