"""Files of the operator as text: checked before they are saved, two writers, the approval rules (P89, D73, D84)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.web.admin.administrators import Administrator, administrator

FILES = {
    "mcp-servers": "mcp_servers.json",
    "tool-groups": "tool_groups.json",
    "tool-approval-config": "toolApprovalConfig.json",
}


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_a_file_begins_empty_and_of_two_writers_the_second_is_told(tmp_path: Path, name: str, file: str) -> None:
    async def test(admin: Administrator) -> None:
        path = f"/{name}/file"
        first = await admin.get(path)
        assert first.status == 200 and json.loads(first.json["content"]) is not None
        assert first.headers["etag"] == '""' and first.json["problems"] == []
        saved = await admin.post(path, {"content": first.json["content"], "expected": ""})
        assert saved.status == 200 and file in saved.json["message"]
        again = await admin.post(path, {"content": first.json["content"] + " ", "expected": ""})
        assert again.status == 409 and again.json["content"] == first.json["content"]
        version = saved.headers["etag"].strip('"')
        newer = first.json["content"] + "\n"
        assert (await admin.post(path, {"content": newer, "expected": version})).status == 200
        assert (tmp_path / file).read_text("utf-8") == newer and (tmp_path / file).stat().st_mode & 0o777 == 0o600

    administrator(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "content", "status", "said"),
    [
        ("mcp-servers", "{", 400, "line 1"),
        ("mcp-servers", "5", 400, "object"),
        ("mcp-servers", "{" + " " * 1024 * 1024 + "}", 413, ""),
        ("tool-groups", "[", 400, ""),
        ("tool-approval-config", '{"approvalList": 5}', 400, "approvalList"),
        ("tool-approval-config", '{"approvalList": [5], "enabled": true}', 200, "approvalList"),
        ("mcp-servers", '{"mcpServers": {"a#b": {"command": "x"}, "c": {}}}', 200, "a#b"),
        ("mcp-servers", None, 400, "content"),
        ("mcp-servers", "\ud800", 200, ""),
    ],
)
def test_what_cannot_be_used_is_not_saved_and_what_is_odd_is_told(
    tmp_path: Path, name: str, content: Any, status: int, said: str
) -> None:
    before = '{"x": 1}'
    (tmp_path / FILES[name]).write_text(before)

    async def test(admin: Administrator) -> None:
        answer = await admin.post(f"/{name}/file", {"content": content})
        if content == "\ud800":  # half a character stands for no character, and no text holds it
            assert answer.status == 400
            return
        assert answer.status == status, answer.body
        told = answer.json["error"] if status != 200 else " ".join(answer.json["problems"])
        assert said in told
        assert ((tmp_path / FILES[name]).read_text() == before) is (status != 200)

    administrator(tmp_path, test)


def test_secrets_of_servers_are_shown_to_editors_as_they_are(tmp_path: Path) -> None:
    """D84: the text must go back unchanged."""
    text = '{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "very-secret"}}}}'
    (tmp_path / "mcp_servers.json").write_text(text)

    async def test(admin: Administrator) -> None:
        assert (await admin.get("/mcp-servers/file")).json["content"] == text
        assert "very-secret" not in (await admin.get("/mcp-servers")).body.decode()

    administrator(tmp_path, test)


def test_approval_rules_are_read_and_written_as_an_object_and_hold_at_once(tmp_path: Path) -> None:
    """8.4: ``tool-approval-config``."""

    async def test(admin: Administrator) -> None:
        first = await admin.get("/tool-approval-config")
        assert first.json == {"enabled": False, "timeoutMinutes": 5, "approveAll": False, "approvalList": []}
        rules = {"enabled": True, "timeoutMinutes": 1, "approvalList": ["Echo"], "privacyProtection": {"enabled": True}}
        assert (await admin.post("/tool-approval-config", {"config": rules})).status == 200
        assert (await admin.get("/tool-approval-config")).json == rules
        assert admin.services.approvals.private() is True
        assert (await admin.post("/tool-approval-config", {"config": []})).status == 400
        late = await admin.post("/tool-approval-config", {"config": rules, "expected": "0" * 64})
        assert late.status == 409 and json.loads(late.json["content"]) == rules

    administrator(tmp_path, test)
