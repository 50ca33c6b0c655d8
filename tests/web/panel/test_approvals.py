"""The page of approvals: what waits, hostile words, forms of MCP servers, rules, history (7.6; D75)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from app.extend import AnswerAction, CallContext, Door, ErrorKind, PersonAnswer, PersonQuestion, ToolCall, ToolResult
from app.web.panel.approvals import MAX_CARDS
from tests.server import ECHO, write_plugin
from tests.waiting import until
from tests.web.panel.browsing import HOSTILE, Page, browsing, hidden

FORM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "title": HOSTILE, "description": HOSTILE},
        "age": {"type": "integer"},
        "sure": {"type": "boolean", "default": True},
        "colours": {"type": "array", "items": {"enum": ["red", "green"]}},
    },
}


def wanted(home: Path, *rules: str, **more: Any) -> None:
    write_plugin(home, "Echo", ECHO)
    value = {"enabled": True, "timeoutMinutes": 1, "approvalList": list(rules), **more}
    (home / "toolApprovalConfig.json").write_text(json.dumps(value), encoding="utf-8")


def call(page: Page, **arguments: Any) -> asyncio.Task[ToolResult]:
    wish = ToolCall("c", "Echo", arguments, maid=HOSTILE)
    return asyncio.create_task(page.server.services.router.call(wish, CallContext("t", Door.STREAM)))


def ask(page: Page, **more: Any) -> asyncio.Task[PersonAnswer]:
    question = PersonQuestion("files", HOSTILE, CallContext("t", Door.MCP), **more)
    return asyncio.create_task(page.server.services.approvals.ask(question, 30.0))


async def waits(page: Page) -> str:
    await until(lambda: bool(page.server.services.approvals.pending()))
    return page.server.services.approvals.pending()[0].id


def test_a_call_is_shown_in_full_and_approved(tmp_path: Path) -> None:
    """Whatever a model writes into names and values of arguments is text."""
    wanted(tmp_path, "Echo")

    async def test(page: Page) -> None:
        assert "Nothing waits" in (await page.get("/approvals")).text
        calling = call(page, text=HOSTILE, **{HOSTILE: {"deep": [HOSTILE, "</pre><script>"]}})
        request_id = await waits(page)
        for language, word in (("en", "Approve"), ("zh", "批准")):
            shown = (await page.get("/approvals", language)).text
            assert word in shown and "stream_loop" in shown and shown.count("&lt;script&gt;alert(2)") >= 4
            assert "<script>alert" not in shown and "<img src=x" not in shown and "</pre><script>" not in shown
        answered = await page.post(f"/approvals-answer/{request_id}", {"approved": "true", "reason": ""})
        assert answered.headers["HX-Retarget"] == "#notices" and "approval-answered" in answered.headers["HX-Trigger"]
        assert (await calling).ok
        late = await page.post(f"/approvals-answer/{request_id}", {"approved": "false"})
        assert late.status_code == 409 and "Too late" in late.text
        history = (await page.get("/approvals?tab=history")).text
        assert "approved" in history and "panel from 127.0.0.1" in history and "<script>alert" not in history
        assert (await page.post("/approvals-answer/nothing", {"approved": "true"})).status_code == 404
        assert (await page.post("/approvals-answer/nothing", {})).status_code == 400

    browsing(tmp_path, test)


def test_a_rejection_carries_its_reason_to_the_model(tmp_path: Path) -> None:
    wanted(tmp_path, "Echo")

    async def test(page: Page) -> None:
        calling = call(page, text="x")
        await page.post(f"/approvals-answer/{await waits(page)}", {"approved": "false", "reason": "不行 <b>"})
        result = await calling
        assert result.error_kind is ErrorKind.REJECTED and "不行 <b>" in result.message
        assert "不行 &lt;b&gt;" in (await page.get("/approvals?tab=history")).text

    browsing(tmp_path, test)


def test_an_open_page_gets_what_is_new_and_loses_what_is_settled(tmp_path: Path) -> None:
    """The queue is live; what a person is filling in is not replaced."""
    wanted(tmp_path, "Echo")

    async def test(page: Page) -> None:
        calling = call(page, text="first")
        request_id = await waits(page)
        new = (await page.post("/approvals-news")).text
        assert f'id="waiting-{request_id}"' in new and 'hx-swap-oob="beforeend:#queue"' in new
        same = (await page.post("/approvals-news", [("known", request_id)])).text
        assert "waiting-" not in same and re.search(r'id="queue-empty"[^>]*hidden', same)
        page.server.services.approvals.answer(request_id, True, by="somebody else")
        await calling
        gone = (await page.post("/approvals-news", [("known", request_id), ("known", HOSTILE)])).text
        assert f'<div id="waiting-{request_id}" hx-swap-oob="delete">' in gone and "onerror" not in gone
        assert re.search(r'id="queue-empty" hx-swap-oob="true" >', gone)

    browsing(tmp_path, test)


def test_long_arguments_are_cut_in_the_middle_and_say_so(tmp_path: Path) -> None:
    wanted(tmp_path, "Echo")

    async def test(page: Page) -> None:
        calling = call(
            page, text="begin" + "x " * 45_000 + "end", **{f"n{number}": "y " * 45_000 for number in range(5)}
        )
        request_id = await waits(page)
        shown = await page.get("/approvals")
        assert len(shown.content) < 300_000 and "begin" in shown.text and "end" in shown.text
        await page.post(f"/approvals-answer/{request_id}", {"approved": "false"})
        await calling

    browsing(tmp_path, test)


def test_a_form_of_an_mcp_server_is_filled_in_by_a_person(tmp_path: Path) -> None:
    """D75: by a person only; a wrong value is told and the question waits on; a default stands for what is left out."""

    async def test(page: Page) -> None:
        asking = ask(page, schema=FORM)
        request_id = await waits(page)
        shown = (await page.get("/approvals")).text
        assert "files" in shown and "<script>alert" not in shown and 'name="field:age"' in shown
        path = f"/approvals-answer/{request_id}"
        wrong = await page.post(path, [("approved", "true"), ("field:name", "Ada"), ("field:age", "x")])
        missing = await page.post(path, [("approved", "true"), ("field:name", "")])
        assert (wrong.status_code, missing.status_code, asking.done()) == (400, 400, False)
        form = [
            ("approved", "true"),
            ("field:name", "Ada"),
            ("field:age", "36"),
            ("field:colours", "red"),
            ("field:colours", "green"),
            ("field:sure", ""),
        ]
        assert (await page.post(path, form)).status_code == 200
        answer = await asking
        assert answer.action is AnswerAction.ACCEPT
        assert answer.content == {"name": "Ada", "age": 36, "sure": True, "colours": ["red", "green"]}

    browsing(tmp_path, test)


def test_a_page_that_a_server_wants_visited_is_shown_with_its_host(tmp_path: Path) -> None:
    async def test(page: Page) -> None:
        good, bad = ask(page, url="https://example.com/login?x=1"), ask(page, url="javascript:alert(1)")
        await until(lambda: len(page.server.services.approvals.pending()) == 2)
        shown = (await page.get("/approvals")).text
        assert '<strong class="mono">example.com</strong>' in shown and 'rel="noopener noreferrer"' in shown
        assert 'href="javascript' not in shown
        for one in page.server.services.approvals.pending():
            await page.post(f"/approvals-answer/{one.id}", {"approved": "false"})
        assert (await good).action is (await bad).action is AnswerAction.DECLINE

    browsing(tmp_path, test)


def test_rules_are_a_form_that_keeps_other_keys_and_two_writers_apart(tmp_path: Path) -> None:
    wanted(tmp_path, "Echo", debugMode=True, privacyProtection={"enabled": True, "own": 1})
    path = tmp_path / "toolApprovalConfig.json"

    async def test(page: Page) -> None:
        shown = (await page.get("/approvals?tab=rules")).text
        assert "Echo</textarea>" in shown and "SciCalculator" in shown
        version = hidden(shown, "version")
        form = {
            "version": version,
            "enabled": "true",
            "minutes": "2.5",
            "listed": "Echo\r\n\r\nFar#Tool:x::SilentReject",
        }
        saved = await page.post("/approvals-rules", form)
        assert "Saved" in saved.text
        assert json.loads(path.read_text("utf-8")) == {
            "enabled": True,
            "timeoutMinutes": 2.5,
            "approvalList": ["Echo", "Far#Tool:x::SilentReject"],
            "debugMode": True,
            "privacyProtection": {"enabled": False, "own": 1},
            "approveAll": False,
        }
        before = path.read_bytes()
        late = await page.post("/approvals-rules", {**form, "listed": HOSTILE})
        assert "changed meanwhile" in late.text and "&lt;img src=x" in late.text and "<img src=x" not in late.text
        for minutes in ("0", "-1", "x", "nan", "99999"):
            refused = await page.post(
                "/approvals-rules", {**form, "version": hidden(late.text, "version"), "minutes": minutes}
            )
            assert 'role="alert"' in refused.text
        assert path.read_bytes() == before

    browsing(tmp_path, test)


def test_a_broken_file_of_rules_is_told_and_not_overwritten_by_the_form(tmp_path: Path) -> None:
    (tmp_path / "toolApprovalConfig.json").write_text('{"enabled": tru', encoding="utf-8")

    async def test(page: Page) -> None:
        shown = (await page.get("/approvals?tab=rules")).text
        assert 'role="alert"' in shown
        form = {"version": hidden(shown, "version"), "minutes": "5", "listed": ""}
        assert 'role="alert"' in (await page.post("/approvals-rules", form)).text
        assert (tmp_path / "toolApprovalConfig.json").read_text("utf-8") == '{"enabled": tru'
        assert "{&#34;enabled&#34;: tru" in (await page.get("/approvals?tab=file")).text

    browsing(tmp_path, test)


def test_of_many_calls_the_first_are_shown_and_the_next_come_when_these_are_decided(tmp_path: Path) -> None:
    wanted(tmp_path, "Echo")

    async def test(page: Page) -> None:
        calls = [call(page, text=f"number {number} " + '"<&' * 2_000) for number in range(MAX_CARDS + 2)]
        approvals = page.server.services.approvals
        await until(lambda: len(approvals.pending()) == MAX_CARDS + 2)
        shown = await page.get("/approvals")
        assert shown.text.count("<article") == MAX_CARDS and "2 more wait" in shown.text
        known = [("known", one.id) for one in approvals.pending()[:MAX_CARDS]]
        assert "<article" not in (await page.post("/approvals-news", known)).text
        approvals.answer(known[0][1], False, by="test")
        assert (await page.post("/approvals-news", known)).text.count("<article") == 1
        for one in approvals.pending():
            approvals.answer(one.id, False, by="test")
        await asyncio.gather(*calls)

    browsing(tmp_path, test)
