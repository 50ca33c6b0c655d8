"""Reads the request bodies of the demo upstream as strictly as a real model API does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from app.demo.vectors import DEFAULT_DIMENSIONS
from app.errors import BadRequestError
from app.extend import Body, Json, Message

MAX_CHOICES = 8
MAX_STOPS = 4
MAX_INPUTS = 2048
MAX_INPUT_CHARS = 32_768
MAX_DIMENSIONS = 4096
MAX_DOCUMENTS = 1000

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


@dataclass(frozen=True, slots=True)
class ChatBody:
    """A chat request. Unknown fields are ignored; anything but ``stream: true`` asks for a whole answer.

    ``functions`` are the names of those that the model may call.
    """

    model: str
    messages: Sequence[Message]
    stream: bool
    include_usage: bool
    choices: int
    stop: tuple[str, ...]
    max_tokens: int | None
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EmbeddingBody:
    """An embedding request; token lists have become texts."""

    model: str
    inputs: tuple[str, ...]
    dimensions: int
    base64: bool


@dataclass(frozen=True, slots=True)
class RerankBody:
    """A rerank request."""

    model: str
    query: str
    documents: tuple[str, ...]
    top_n: int
    with_documents: bool


def read_json(raw: bytes) -> Body:
    """The JSON object in a request body; raises BadRequestError."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"The request body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError("The request body must be a JSON object.")
    return body


def read_chat(body: Body) -> ChatBody:
    """Check a chat request; raises BadRequestError that names the field."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("'messages' must be a list with at least one message.")
    for at, message in enumerate(messages):
        _check_message(message, at)
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise BadRequestError("'stream_options' must be an object.")
    stop = body.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or len(stops) > MAX_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise BadRequestError(f"'stop' must be a string or a list of at most {MAX_STOPS} strings.")
    limit = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    return ChatBody(
        model=_model(body),
        messages=messages,
        stream=body.get("stream") is True,
        include_usage=bool(options and options.get("include_usage") is True),
        choices=_whole(body, "n", 1, MAX_CHOICES) or 1,
        stop=tuple(stops),
        max_tokens=_whole(body, limit, 1, None),
        functions=_functions(body),
    )


def _functions(body: Body) -> frozenset[str]:
    """Names of the functions in ``tools``, none where the client wants no calls."""
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise BadRequestError("'tools' must be a list of objects.")
    if body.get("tool_choice") == "none":
        return frozenset()
    described = [tool.get("function") for tool in tools]
    names = [function.get("name") for function in described if isinstance(function, dict)]
    return frozenset(name for name in names if isinstance(name, str))


def read_embedding(body: Body) -> EmbeddingBody:
    """Check an embedding request; raises BadRequestError that names the field."""
    given = body.get("input")
    if isinstance(given, str) or (isinstance(given, list) and given and all(_is_whole(item) for item in given)):
        given = [given]
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_INPUTS:
        raise BadRequestError(f"'input' must be a text or a list of 1 to {MAX_INPUTS} texts.")
    encoding = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise BadRequestError("'encoding_format' must be 'float' or 'base64'.")
    return EmbeddingBody(
        model=_model(body),
        inputs=tuple(_input(item, at) for at, item in enumerate(given)),
        dimensions=_whole(body, "dimensions", 1, MAX_DIMENSIONS) or DEFAULT_DIMENSIONS,
        base64=encoding == "base64",
    )


def read_rerank(body: Body) -> RerankBody:
    """Check a rerank request; raises BadRequestError that names the field."""
    query = body.get("query")
    if not isinstance(query, str) or not query or len(query) > MAX_INPUT_CHARS:
        raise BadRequestError(f"'query' must be a text of 1 to {MAX_INPUT_CHARS} characters.")
    documents = body.get("documents")
    if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_DOCUMENTS:
        raise BadRequestError(f"'documents' must be a list of 1 to {MAX_DOCUMENTS} texts.")
    texts = tuple(_document(document, at) for at, document in enumerate(documents))
    return RerankBody(
        model=_model(body),
        query=query,
        documents=texts,
        top_n=_whole(body, "top_n", 1, None) or len(texts),
        with_documents=body.get("return_documents") is True,
    )


def _check_message(message: Json, at: int) -> None:
    if not isinstance(message, dict):
        raise BadRequestError(f"'messages[{at}]' must be an object.")
    if message.get("role") not in ROLES:
        raise BadRequestError(f"'messages[{at}].role' must be one of {', '.join(sorted(ROLES))}.")
    content = message.get("content")
    if content is None:
        if message["role"] != "assistant":
            raise BadRequestError(f"'messages[{at}].content' is missing.")
    elif isinstance(content, list):
        for number, part in enumerate(content):
            _check_part(part, f"messages[{at}].content[{number}]")
    elif not isinstance(content, str):
        raise BadRequestError(f"'messages[{at}].content' must be a text or a list of parts.")


def _check_part(part: Json, where: str) -> None:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise BadRequestError(f"'{where}' must be an object with a 'type'.")
    if part["type"] == "text" and not isinstance(part.get("text"), str):
        raise BadRequestError(f"'{where}.text' must be a text.")


def _model(body: Body) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequestError("'model' must name a model; the demo answers to any name.")
    return model


def _input(item: Json, at: int) -> str:
    if isinstance(item, list) and item and all(_is_whole(token) for token in item):
        item = " ".join(str(token) for token in item)
    if not isinstance(item, str) or not item or len(item) > MAX_INPUT_CHARS:
        raise BadRequestError(f"'input[{at}]' must be a text of 1 to {MAX_INPUT_CHARS} characters.")
    return item


def _document(document: Json, at: int) -> str:
    text = document.get("text") if isinstance(document, dict) else document
    if not isinstance(text, str) or len(text) > MAX_INPUT_CHARS:
        raise BadRequestError(f"'documents[{at}]' must be a text of at most {MAX_INPUT_CHARS} characters.")
    return text


def _whole(body: Body, name: str, least: int, most: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not _is_whole(value) or value < least or (most is not None and value > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise BadRequestError(f"'{name}' must be a whole number {limit}.")
    return int(value)


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
