"""The tools, resources and prompts that the conformance suites of the Model Context Protocol want to find.

Names, texts and keys are those that the suites look for.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from app.errors import VcpError
from app.extend import (
    CallContext,
    Caller,
    ErrorKind,
    OfferedResource,
    OfferedTemplate,
    PluginContext,
    PromptArgument,
    PromptSource,
    Question,
    ResourceContent,
    ToolCall,
    ToolResult,
)

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data\0\0\0\0").decode()
PAUSE = 0.05

Json = Any


def text(words: str) -> dict[str, Json]:
    return {"type": "text", "text": words}


def resource(uri: str, mime_type: str, words: str) -> dict[str, Json]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


IMAGE: dict[str, Json] = {"type": "image", "data": PICTURE, "mimeType": "image/png"}


def given(*parts: Mapping[str, Json]) -> ToolResult:
    return ToolResult(parts=parts)


def form(message: str, required: Sequence[str] = (), **fields: Json) -> dict[str, Json]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def sample(words: str, tokens: int = 100) -> dict[str, Json]:
    return {"messages": [{"role": "user", "content": text(words)}], "maxTokens": tokens}


def changed(manifest: Path, number: int, store: Path) -> None:
    """Let the tool of this manifest have another description, of the same length."""
    described = json.loads(manifest.read_text(encoding="utf-8"))
    described["capabilities"]["invocationCommands"][0]["description"] = (
        f"Its description changes. It is number {number:06}."
    )
    new = store / "manifest.new"  # not beside it: a file that vanishes there makes a reload wait
    new.write_text(json.dumps(described, indent=2), encoding="utf-8")
    new.replace(manifest)


def asked(context: CallContext) -> Caller:
    if context.caller is None:
        raise VcpError("there is no client that can be asked")
    return context.caller


NAME = form("What is your name?", ["name"], name={"type": "string"})
YES = form("Please confirm", ["ok"], ok={"type": "boolean"})
PERSON = form(
    "",
    ["username", "email"],
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)
DEFAULTS = form(
    "Please look at these values",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)


def titled(*titles: str) -> list[Json]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


CHOICES = form(
    "Please choose",
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    titledMulti={"type": "array", "items": {"anyOf": titled("First Choice", "Second Choice", "Third Choice")}},
)


class Fixtures:
    """The plugin: a tool is the method of its name."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._changes = 0

    async def call(self, call: ToolCall, context: CallContext) -> Json:
        work: Callable[[ToolCall, CallContext], Awaitable[Json]] = getattr(self, str(call.command))
        return await work(call, context)

    # --- contents

    async def test_simple_text(self, call: ToolCall, context: CallContext) -> Json:
        return "This is a simple text response for testing."

    async def test_image_content(self, call: ToolCall, context: CallContext) -> Json:
        return given(IMAGE)

    async def test_audio_content(self, call: ToolCall, context: CallContext) -> Json:
        return given({"type": "audio", "data": SOUND, "mimeType": "audio/wav"})

    async def test_embedded_resource(self, call: ToolCall, context: CallContext) -> Json:
        return given(resource("test://embedded-resource", "text/plain", "This is an embedded resource content."))

    async def test_multiple_content_types(self, call: ToolCall, context: CallContext) -> Json:
        data = json.dumps({"test": "data", "value": 123})
        mixed = resource("test://mixed-content-resource", "application/json", data)
        return given(text("Multiple content types test:"), IMAGE, mixed)

    async def test_error_handling(self, call: ToolCall, context: CallContext) -> Json:
        return ToolResult(error_kind=ErrorKind.PLUGIN, message="This tool intentionally returns an error for testing")

    async def json_schema_2020_12_tool(self, call: ToolCall, context: CallContext) -> Json:
        return dict(call.arguments)

    async def test_custom_headers(self, call: ToolCall, context: CallContext) -> Json:
        return dict(call.arguments)

    # --- while it runs

    async def test_tool_with_logging(self, call: ToolCall, context: CallContext) -> Json:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            asked(context).log("info", words)
            await asyncio.sleep(PAUSE)
        return "Tool with logging executed successfully"

    async def test_logging_tool(self, call: ToolCall, context: CallContext) -> Json:
        asked(context).log("info", "Only for those who want it")
        return "logged"

    async def test_tool_with_progress(self, call: ToolCall, context: CallContext) -> Json:
        for done in (0, 50, 100):
            self._context.progress(call, done, 100, f"{done} of 100")
            await asyncio.sleep(PAUSE)
        return "done"

    async def test_reconnection(self, call: ToolCall, context: CallContext) -> Json:
        await asyncio.sleep(2 * PAUSE)
        return "Reconnection test completed successfully"

    async def test_trigger_tool_change(self, call: ToolCall, context: CallContext) -> Json:
        self._changes += 1
        manifest = self._context.home / "Plugin" / "Changing" / "plugin-manifest.json"
        await asyncio.to_thread(changed, manifest, self._changes, self._context.store_dir)
        return "the list of tools changes"

    async def test_trigger_prompt_change(self, call: ToolCall, context: CallContext) -> Json:
        self._context.shelf_changed()
        return "the list of prompts changes"

    # --- questions

    async def test_sampling(self, call: ToolCall, context: CallContext) -> Json:
        answer: Json = await asked(context).ask(Question.SAMPLE, sample(str(call.arguments["prompt"])))
        return f"LLM response: {answer['content']['text']}"

    async def test_missing_capability(self, call: ToolCall, context: CallContext) -> Json:
        await asked(context).ask(Question.SAMPLE, sample("Are you there?"))
        return "the client has a model"

    async def test_elicitation(self, call: ToolCall, context: CallContext) -> Json:
        wanted = {**PERSON, "message": str(call.arguments["message"])}
        return _told("User response", await asked(context).ask(Question.ELICIT, wanted))

    async def test_elicitation_sep1034_defaults(self, call: ToolCall, context: CallContext) -> Json:
        return _told("Elicitation completed", await asked(context).ask(Question.ELICIT, DEFAULTS))

    async def test_elicitation_sep1330_enums(self, call: ToolCall, context: CallContext) -> Json:
        return _told("Elicitation completed", await asked(context).ask(Question.ELICIT, CHOICES))

    async def test_streaming_elicitation(self, call: ToolCall, context: CallContext) -> Json:
        self._context.progress(call, 1, 2)
        return _told("Elicitation completed", await asked(context).ask(Question.ELICIT, NAME, key="user_name"))

    async def test_input_required_result_elicitation(self, call: ToolCall, context: CallContext) -> Json:
        answer: Json = await asked(context).ask(Question.ELICIT, NAME, key="user_name")
        return f"Hello, {answer.get('content', {}).get('name', 'nobody')}!"

    async def test_input_required_result_sampling(self, call: ToolCall, context: CallContext) -> Json:
        question = sample("What is the capital of France?")
        answer: Json = await asked(context).ask(Question.SAMPLE, question, key="capital_question")
        return answer["content"]["text"]

    async def test_input_required_result_list_roots(self, call: ToolCall, context: CallContext) -> Json:
        answer: Json = await asked(context).ask(Question.ROOTS, {}, key="client_roots")
        return ", ".join(root["uri"] for root in answer["roots"])

    async def test_input_required_result_request_state(self, call: ToolCall, context: CallContext) -> Json:
        await asked(context).ask(Question.ELICIT, YES, key="confirm")
        return "state-ok"

    async def test_input_required_result_tampered_state(self, call: ToolCall, context: CallContext) -> Json:
        await asked(context).ask(Question.ELICIT, YES, key="confirm")
        return "state-ok"

    async def test_input_required_result_multiple_inputs(self, call: ToolCall, context: CallContext) -> Json:
        client = asked(context)
        answers = await asyncio.gather(
            client.ask(Question.ELICIT, NAME, key="user_name"),
            client.ask(Question.SAMPLE, sample("Generate a greeting", 50), key="greeting"),
            client.ask(Question.ROOTS, {}, key="client_roots"),
        )
        return {"answers": [dict(answer) for answer in answers]}

    async def test_input_required_result_multi_round(self, call: ToolCall, context: CallContext) -> Json:
        client = asked(context)
        colour = form("Step 2: What is your favorite color?", ["color"], color={"type": "string"})
        await client.ask(Question.ELICIT, {**NAME, "message": "Step 1: What is your name?"}, key="step1")
        await client.ask(Question.ELICIT, colour, key="step2")
        return "all rounds are done"

    async def test_input_required_result_capabilities(self, call: ToolCall, context: CallContext) -> Json:
        client = asked(context)
        wanted = ((Question.ELICIT, NAME, "user_name"), (Question.SAMPLE, sample("Hello"), "greeting"))
        can = [client.ask(kind, params, key=key) for kind, params, key in wanted if client.can(kind, params)]
        return {"answers": [dict(answer) for answer in await asyncio.gather(*can)]}

    # --- beside tools

    def resources(self) -> Sequence[Resources]:
        return [Resources()]

    def prompts(self) -> Sequence[PromptSource]:
        uri = PromptArgument("resourceUri", "URI of the resource to embed", required=True)
        both = [PromptArgument(name, f"Test argument {name}", required=True) for name in ("arg1", "arg2")]
        return [
            Prompt("test_simple_prompt", "A simple prompt", simple),
            Prompt("test_prompt_with_arguments", "A prompt with arguments", with_arguments, both),
            Prompt("test_prompt_with_embedded_resource", "A prompt with a resource", with_resource, [uri]),
            Prompt("test_prompt_with_image", "A prompt with a picture", with_picture),
            Prompt("test_input_required_result_prompt", "A prompt that asks first", with_question),
        ]


def _told(what: str, answer: Mapping[str, Json]) -> str:
    return f"{what}: action={answer['action']}, content={json.dumps(answer.get('content', {}))}"


class Resources:
    """All ``test://`` addresses."""

    scheme = "test"
    _texts: ClassVar[Mapping[str, str]] = {
        "test://static-text": "This is the content of the static text resource.",
        "test://watched-resource": "Watched resource content",
        "test://example-resource": "Example resource content",
    }

    def resources(self) -> Sequence[OfferedResource]:
        texts = [OfferedResource(uri, uri.removeprefix("test://"), description="A text") for uri in self._texts]
        return [*texts, OfferedResource("test://static-binary", "static-binary", "image/png", description="A picture")]

    def templates(self) -> Sequence[OfferedTemplate]:
        return [OfferedTemplate("test://template/{id}/data", "template", "Data of an id", "application/json")]

    def read(self, uri: str) -> ResourceContent | None:
        if uri == "test://static-binary":
            return ResourceContent(base64.b64decode(PICTURE), "image/png")
        if uri in self._texts:
            return ResourceContent(self._texts[uri])
        begin, end = "test://template/", "/data"
        if uri.startswith(begin) and uri.endswith(end):
            wanted = uri[len(begin) : -len(end)]
            data = {"id": wanted, "templateTest": True, "data": f"Data for ID: {wanted}"}
            return ResourceContent(json.dumps(data), "application/json")
        return None

    def complete(self, template: str, argument: str, value: str, known: Mapping[str, str]) -> Sequence[str]:
        return ["1", "12", "123"]


Messages = list[dict[str, Json]]


@dataclass(frozen=True)
class Prompt:
    """One prompt, made by a function."""

    name: str
    description: str
    make: Callable[[Mapping[str, str], CallContext], Awaitable[str | Messages]]
    arguments: Sequence[PromptArgument] = field(default=())
    title: str = ""

    async def get(self, arguments: Mapping[str, str], context: CallContext) -> str | Messages:
        return await self.make(arguments, context)

    async def complete(self, argument: str, value: str, known: Mapping[str, str]) -> Sequence[str]:
        return ["test value", "testing", "other"]


async def simple(arguments: Mapping[str, str], context: CallContext) -> str:
    return "This is a simple prompt for testing."


async def with_arguments(arguments: Mapping[str, str], context: CallContext) -> str:
    return f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"


async def with_resource(arguments: Mapping[str, str], context: CallContext) -> Messages:
    embedded = resource(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
    words = text("Please process the embedded resource above.")
    return [{"role": "user", "content": embedded}, {"role": "user", "content": words}]


async def with_picture(arguments: Mapping[str, str], context: CallContext) -> Messages:
    words = text("Please analyze the image above.")
    return [{"role": "user", "content": IMAGE}, {"role": "user", "content": words}]


async def with_question(arguments: Mapping[str, str], context: CallContext) -> str:
    question = form("What context should the prompt use?", ["context"], context={"type": "string"})
    answer: Json = await asked(context).ask(Question.ELICIT, question, key="user_context")
    return f"Use this context: {answer.get('content', {}).get('context', '')}"


def create(context: PluginContext) -> Fixtures:
    return Fixtures(context)
