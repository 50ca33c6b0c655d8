"""Blocked addresses in the panel: why, for how long, and letting them come again (vcp-core 1.3, 1.8)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.web.asgi import ask
from tests.web.panel.visits import HOSTILE, Visits, is_harmless, text_of, visit


def test_addresses_are_listed_and_unblocked(tmp_path: Path) -> None:
    (tmp_path / "ip_blacklist.json").write_text(json.dumps(["7.7.7.7", HOSTILE]))

    async def test(panel: Visits) -> None:
        answer = await panel.get("blocked", "en")
        assert is_harmless(answer)
        assert "7.7.7.7" in text_of(answer)
        assert "until unblocked" in text_of(answer)
        assert (await panel.post("blocked", address="7.7.7.7", kind="address")).status == 303
        assert "7.7.7.7" not in text_of(await panel.get("blocked"))
        assert (await panel.post("blocked", address="7.7.7.7", kind="address")).status == 404
        assert json.loads((tmp_path / "ip_blacklist.json").read_text()) == [HOSTILE]

    visit(tmp_path, test)


def test_somebody_who_may_not_log_in_may_again(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        for _ in range(5):
            wrong = ("authorization", "Basic YWRtaW46d3Jvbmc=")
            await ask(panel.app, "GET", "/admin_api/forum/posts", wrong, client="8.8.4.4")
        assert "8.8.4.4" in text_of(await panel.get("blocked"))
        assert (await panel.post("blocked", address="8.8.4.4", kind="login")).status == 303
        assert "8.8.4.4" not in text_of(await panel.get("blocked"))
        assert (await panel.post("blocked", address="8.8.4.4", kind="login")).status == 404

    visit(tmp_path, test)


@pytest.mark.parametrize(("language", "said"), [("zh", "没有被封禁的地址"), ("en", "No address is blocked")])
def test_a_page_without_addresses_says_so(tmp_path: Path, language: str, said: str) -> None:
    async def test(panel: Visits) -> None:
        assert said in text_of(await panel.get("blocked", language))

    visit(tmp_path, test)


def test_it_says_when_blocking_is_off_or_the_list_is_broken(tmp_path: Path) -> None:
    async def off(panel: Visits) -> None:
        assert "IpBlacklist=false" in text_of(await panel.get("blocked"))

    visit(tmp_path, off, "IpBlacklist=false")
    (tmp_path / "ip_blacklist.json").write_text("{broken")

    async def broken(panel: Visits) -> None:
        assert "无法读取" in text_of(await panel.get("blocked"))

    visit(tmp_path, broken)
