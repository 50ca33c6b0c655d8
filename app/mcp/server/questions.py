"""Questions to the client of a call, in the protocol's own types: can it answer, what is asked, is that an answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from mcp_types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
    ServerRequest,
)
from mcp_types.methods import validate_server_result
from pydantic import BaseModel, ValidationError

from app.errors import BadRequestError, VcpError, both
from app.extend import Json, Question

TOOLS = "tools"
"""The parameter of a sampling request that a client must be able for on its own."""

_SINCE: Mapping[Question, str] = MappingProxyType(
    {Question.ELICIT: "2025-06-18", Question.SAMPLE: "2024-11-05", Question.ROOTS: "2024-11-05"}
)
_PAGES_SINCE = "2025-11-25"
_MODERN = "2026-07-28"

_REQUESTS: Mapping[Question, type[BaseModel]] = MappingProxyType(
    {Question.ELICIT: ElicitRequest, Question.SAMPLE: CreateMessageRequest, Question.ROOTS: ListRootsRequest}
)
_ANSWERS: Mapping[Question, type[BaseModel]] = MappingProxyType(
    {Question.ELICIT: ElicitResult, Question.SAMPLE: CreateMessageResult, Question.ROOTS: ListRootsResult}
)


class Fault(Protocol):
    """What is wrong with a value: where, and why, in one line."""

    @property
    def path(self) -> str: ...

    @property
    def reason(self) -> str: ...


Validate = Callable[[Mapping[str, Json], Json], Fault | None]
"""Checks a value against a JSON Schema; None when nothing is wrong with it. In bounded time, without the network."""


class CallerError(VcpError):
    """The client behind a call cannot be asked, refused, answered nonsense, or is gone."""

    status = 502
    code = "caller_error"


def wanted_capability(question: Question, params: Mapping[str, Json]) -> dict[str, Json]:
    """What a client must have said that it can do to be asked this, as its ``capabilities`` write it."""
    if question is Question.ROOTS:
        return {"roots": {}}
    if question is Question.SAMPLE:
        return {"sampling": {TOOLS: {}} if params.get(TOOLS) else {}}
    return {"elicitation": {"url" if params.get("mode") == "url" else "form": {}}}


def can_answer(
    capabilities: ClientCapabilities | None, revision: str, question: Question, params: Mapping[str, Json]
) -> bool:
    """Whether a client with these capabilities, which speaks this revision, answers such a question."""
    if capabilities is None or revision < _SINCE[question]:
        return False
    if question is Question.ROOTS:
        return capabilities.roots is not None
    if question is Question.SAMPLE:
        sampling = capabilities.sampling
        return sampling is not None and (not params.get(TOOLS) or sampling.tools is not None)
    elicitation = capabilities.elicitation
    if elicitation is None:
        return False
    if params.get("mode") == "url":
        return revision >= _PAGES_SINCE and elicitation.url is not None
    return elicitation.form is not None or elicitation.url is None  # an empty object means forms


def for_session(question: Question, params: Mapping[str, Json], revision: str) -> Mapping[str, Json]:
    """The parameters of the newest revision as an older one writes them.

    Pages to visit need an id there; before 2025-11-25 a message of a sampling request has one block of content.
    """
    if question is Question.ELICIT and params.get("mode") == "url":
        return {"elicitationId": secrets.token_urlsafe(16), **params}
    messages = params.get("messages")
    if question is Question.SAMPLE and revision < _PAGES_SINCE and isinstance(messages, list):
        return {**params, "messages": [one for message in messages for one in _single_blocks(message)]}
    return params


def _single_blocks(message: Json) -> list[Json]:
    content = message.get("content") if isinstance(message, Mapping) else None
    return [{**message, "content": block} for block in content] if isinstance(content, list) else [message]


def as_request(question: Question, params: Mapping[str, Json]) -> ServerRequest:
    """The question in the SDK's type. Raises CallerError for parameters that are none."""
    body = {"method": question.value, "params": dict(params)}
    try:
        request: Any = _REQUESTS[question].model_validate(body, by_name=False)
        if question is not Question.ROOTS or params:
            written = request.model_dump(by_alias=True, mode="json", exclude_none=True)
            asked = {"resultType": "input_required", "inputRequests": {"question": written}}
            validate_server_result("tools/call", _MODERN, asked)
    except ValidationError as error:
        raise CallerError(
            both(
                f"对客户端的提问 {question.value} 格式不正确",
                f"this question, {question.value}, is none of the protocol",
            )
        ) from error
    asked_for: ServerRequest = request
    return asked_for


def answer_type(question: Question, params: Mapping[str, Json]) -> type[BaseModel]:
    """The SDK's type of an answer."""
    if question is Question.SAMPLE and params.get(TOOLS):
        return CreateMessageResultWithTools
    return _ANSWERS[question]


def read_answer(question: Question, params: Mapping[str, Json], answer: Json, validate: Validate) -> Mapping[str, Json]:
    """The answer as JSON. Raises BadRequestError for what is no answer to this question, or does not fit its form."""
    try:
        read = as_json(answer_type(question, params).model_validate(answer, by_name=False))
    except ValidationError:
        raise BadRequestError(
            both(f"客户端对 {question.value} 的回答格式不正确", f"this is no answer to {question.value}")
        ) from None
    schema = params.get("requestedSchema")
    if question is Question.ELICIT and read.get("action") == "accept" and isinstance(schema, Mapping):
        fault = validate(schema, read.get("content", {}))
        if fault is not None:
            where = f"{fault.path}: {fault.reason}"
            raise BadRequestError(both(f"表单内容不符合要求：{where}", f"the content does not fit the form at {where}"))
    return read


def as_json(read: BaseModel) -> Mapping[str, Json]:
    """A value of the SDK as JSON."""
    written: dict[str, Json] = read.model_dump(by_alias=True, mode="json", exclude_none=True)
    return written
