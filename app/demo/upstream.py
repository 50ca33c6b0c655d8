"""The demo upstream: an honest rule-based model behind the OpenAI API.

It is what a newcomer talks to when no ``API_URL`` is configured, and one of the two test doubles of the suite (the
other is ``scripted.py``). The same body always gets the same text in the same pieces; only ``created`` and the date in
diary entries come from the clock.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from hashlib import sha256

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.demo.bodies import read_chat, read_embedding, read_json, read_rerank
from app.demo.completion import Completion, CompletionResponse, Pace, count_tokens, cut_pieces
from app.demo.conversation import read_contents, read_conversation
from app.demo.replies import DemoReply, reply_to
from app.demo.vectors import embed, packed, relevance
from app.errors import BodyTooLargeError, NotFoundError, VcpError
from app.extend import Clock, Json
from app.protocol.json_text import compact_json

MODEL_IDS = ("vcp-demo", "vcp-demo-embedding", "vcp-demo-rerank")
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest request body; pictures arrive as base64."""


def create_demo(
    *,
    delay: float = 0.01,
    slow_delay: float = 0.1,
    slow_lines: int = 300,
    clock: Clock = time.time,
    zone: tzinfo = UTC,
    pace: Pace = asyncio.sleep,
) -> Starlette:
    """The demo upstream as an ASGI application; any key and any model name will do.

    ``delay`` and ``slow_delay`` are the seconds before each piece of a stream and before each of the ``slow_lines`` of
    a slow answer; ``pace`` does the waiting. Diary entries are dated in ``zone``.
    """
    demo = _Demo(delay, slow_delay, slow_lines, clock, zone, pace)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", demo.chat, methods=["POST"]),
            Route("/v1/embeddings", demo.embeddings, methods=["POST"]),
            Route("/v1/rerank", demo.rerank, methods=["POST"]),
            Route("/v1/models", demo.models, methods=["GET"]),
            Route("/v1/models/{name}", demo.model, methods=["GET"]),
        ],
        exception_handlers={VcpError: _known_fault, HTTPException: _http_fault},
    )


@dataclass(frozen=True, slots=True)
class _Demo:
    delay: float
    slow_delay: float
    slow_lines: int
    clock: Clock
    zone: tzinfo
    pace: Pace

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        raw = await _read_body(request)
        body = read_chat(read_json(raw))
        now = self.clock()
        date = datetime.fromtimestamp(now, self.zone).strftime("%Y-%m-%d")
        digest = sha256(raw)
        reply = reply_to(read_conversation(body.messages), date, self.slow_lines, body.functions)
        pieces, finish = cut_pieces(
            reply,
            start=digest.digest()[0],
            delay=self.delay if body.stream else 0,
            slow_delay=self.slow_delay,
            stop=body.stop,
            max_tokens=body.max_tokens,
        )
        calls = _calls(reply, digest.hexdigest()[:8]) if finish == "stop" else ()
        completion = Completion(
            id=f"chatcmpl-demo-{digest.hexdigest()[:24]}",
            created=int(now),
            model=body.model,
            pieces=pieces,
            finish_reason="tool_calls" if calls else finish,
            prompt_tokens=sum(count_tokens("".join(read_contents(message)[0])) for message in body.messages),
            completion_tokens=count_tokens("".join(text for _, text in pieces)),
            choices=body.choices,
            calls=calls,
        )
        return CompletionResponse(completion, self.pace, stream=body.stream, include_usage=body.include_usage)

    async def embeddings(self, request: Request) -> Response:
        """POST /v1/embeddings."""
        body = read_embedding(read_json(await _read_body(request)))
        data: list[Json] = []
        for index, text in enumerate(body.inputs):
            await asyncio.sleep(0)  # a long list must not stop other answers
            vector = embed(text, body.dimensions)
            data.append({"object": "embedding", "index": index, "embedding": packed(vector) if body.base64 else vector})
        tokens = sum(count_tokens(text) for text in body.inputs)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"object": "list", "data": data, "model": body.model, "usage": usage})

    async def rerank(self, request: Request) -> Response:
        """POST /v1/rerank, in the form that Jina, Cohere and their kin share."""
        raw = await _read_body(request)
        body = read_rerank(read_json(raw))
        scored: list[tuple[float, int]] = []
        for index, document in enumerate(body.documents):
            await asyncio.sleep(0)  # a long list must not stop other answers
            scored.append((relevance(body.query, document), index))
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        results: list[Json] = []
        for score, index in scored[: body.top_n]:
            result: Json = {"index": index, "relevance_score": score}
            if body.with_documents:
                result["document"] = {"text": body.documents[index]}
            results.append(result)
        tokens = sum(count_tokens(text) for text in (body.query, *body.documents))
        name = f"rerank-demo-{sha256(raw).hexdigest()[:24]}"
        return _json({"id": name, "model": body.model, "results": results, "usage": {"total_tokens": tokens}})

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        return _json({"object": "list", "data": [self._described(name) for name in MODEL_IDS]})

    async def model(self, request: Request) -> Response:
        """GET /v1/models/{name}."""
        name = request.path_params["name"]
        if name not in MODEL_IDS:
            raise NotFoundError(f"There is no model {name!r} here, but the demo answers to any name.")
        return _json(self._described(name))

    def _described(self, name: str) -> Json:
        return {"id": name, "object": "model", "created": int(self.clock()), "owned_by": "vcp-demo"}


def _calls(reply: DemoReply, name: str) -> tuple[Json, ...]:
    """The function calls of a reply, with ids that no other reply has."""
    return tuple(
        {
            "id": f"call_demo_{name}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": compact_json(dict(call.arguments))},
        }
        for number, call in enumerate(reply.calls)
    )


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLargeError(f"The request body is larger than {MAX_BODY_BYTES} bytes.")
    return bytes(body)


def _json(value: Json, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _error(status: int, message: str, kind: str, code: str | None) -> Response:
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)


async def _known_fault(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, VcpError)
    return _error(fault.status, fault.message, "invalid_request_error", fault.code)


async def _http_fault(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    where = f"{request.method} {request.url.path}"
    if fault.status_code == 405:
        return _error(405, f"Method not allowed: {where}", "invalid_request_error", "method_not_allowed")
    return _error(fault.status_code, f"Unknown address: {where}", "invalid_request_error", "unknown_url")
