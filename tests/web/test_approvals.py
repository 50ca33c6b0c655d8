"""``/v1/approvals``: calls that wait, and a person's word about one (spec 7.6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.hub.approval.approving import Tools, answers, approving, asked, person, settled
from tests.hub.approval.test_guard import human
from tests.server import call_text, run
from tests.web.asgi import app_in, ask


def test_the_routes_need_the_key(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    for method, path in (("GET", "/v1/approvals"), ("POST", "/v1/approvals/x")):
        assert asyncio.run(ask(app, method, path)).status == 401


@pytest.mark.parametrize("approved", [True, False])
def test_calls_that_wait_are_listed_and_decided(tmp_path: Path, approved: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            assert (await server.client.get("/v1/approvals")).json() == {"approvals": []}
            call = asyncio.create_task(human(server, call_text("Danger", path="/x", maid="Nova")))
            request = await asked(wire)
            (listed,) = (await server.client.get("/v1/approvals")).json()["approvals"]
            assert listed.pop("approvalTtlMs") <= request.pop("approvalTtlMs")
            del listed["timestamp"], request["timestamp"]
            assert listed == request
            where = f"/v1/approvals/{request['requestId']}"
            said = await server.client.post(where, json={"approved": approved, "reason": "because"})
            assert said.status_code == 200
            told = await settled(wire)
            assert told == said.json()
            assert (told["approved"], told["by"]) == (approved, "/v1/approvals from 127.0.0.1")
            assert (await call).status_code == (200 if approved else 500)
            assert len(tools.calls) == approved
            late = await server.client.post(where, json={"approved": not approved})
            assert late.status_code == 409
            assert {**late.json(), "error": ""} == {"error": "", **told}
            assert (await server.client.get("/v1/approvals")).json() == {"approvals": []}

    run(main())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"approved": "true"}', 400),
        (b'{"approved": 1}', 400),
        (b'{"approved": null}', 400),
        (b'{"approved": true, "reason": 5}', 400),
        (b"[" * 60_000, 400),
        (b'{"approved": true, "reason": "' + b"x" * 70_000 + b'"}', 413),
        (b"\xff", 400),
    ],
)
def test_a_body_that_says_neither_yes_nor_no_decides_nothing(tmp_path: Path, body: bytes, status: int) -> None:
    async def main() -> None:
        async with approving(tmp_path, Tools("Danger")) as (server, _), person(server) as wire:
            call = asyncio.create_task(human(server, call_text("Danger")))
            request = await asked(wire)
            answer = await server.client.post(f"/v1/approvals/{request['requestId']}", content=body)
            assert answer.status_code == status
            assert " / " in answer.json()["error"]
            assert server.services.approvals.find(request["requestId"]) is not None
            gone: Any = await server.client.post(f"/v1/approvals/{request['requestId']}", json={"approved": False})
            assert gone.status_code == 200
            await call

    run(main())


@pytest.mark.parametrize("request_id", ["nothing", "%00", "..%2Fx", "a" * 1000, "审批"])
def test_an_unknown_request_is_not_found(tmp_path: Path, request_id: str) -> None:
    async def main() -> None:
        async with approving(tmp_path, Tools("Danger")) as (server, _):
            answer = await server.client.post(f"/v1/approvals/{request_id}", json={"approved": True})
            assert answer.status_code == 404
            assert answer.json()["error"]

    run(main())


def test_a_person_on_the_log_and_one_on_the_route_race_and_one_of_them_wins(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire, person(server) as other:
            call = asyncio.create_task(human(server, call_text("Danger")))
            request = await asked(other)
            _, said = await asyncio.gather(
                answers(wire, True),
                server.client.post(f"/v1/approvals/{request['requestId']}", json={"approved": False}),
            )
            told = await settled(wire)
            assert (said.status_code == 200) is (told["approved"] is False)
            assert (await call).status_code == (200 if told["approved"] else 500)
            assert len(tools.calls) == bool(told["approved"])

    run(main())
