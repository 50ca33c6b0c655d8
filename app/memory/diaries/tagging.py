"""The auto-tagger: asks a model for the Tag line of a note that has none (memory.md 1.4)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import httpx

from app.errors import VcpError, both
from app.memory.diaries.tag_model import TagModel
from app.protocol.diary import normalise_tags

ATTEMPTS = 3
WAITS = (1.0, 2.0)
"""Seconds before the second and the third attempt."""

REQUEST_SECONDS = 60.0
"""All of one request, from connecting to the last byte; three of them and both waits stay below 240 s (manifest)."""

TEMPERATURE = 0.7
MAX_ANSWER_BYTES = 1024 * 1024
MAX_PROMPT_BYTES = 256 * 1024
MAX_TAG_LINE_CHARS = 2000

_RETRIED = frozenset({500, 503})
_TAGS = re.compile(r"\[\[Tag[:：]([^\r\n]*?)\]\]", re.IGNORECASE)


class NoTagsError(VcpError):
    """There will be no tags for this note; the text says why."""

    code = "no_tags"

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(both(chinese, english))


class _AgainError(Exception):
    """This attempt failed in a way that another attempt may not."""


def tags_for(text: str, model: TagModel, folders: Sequence[Path]) -> str:
    """``ask_for_tags`` for callers without an event loop."""
    return asyncio.run(ask_for_tags(text, model, folders))


async def ask_for_tags(
    text: str, model: TagModel, folders: Sequence[Path], pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> str:
    """The normalised tag line for a diary text; the prompt file is that of the first of ``folders`` that has it.

    ``pause`` waits between attempts. Raises NoTagsError.
    """
    prompt = read_prompt(folders, model.prompt_file)
    body = {
        "model": model.model,
        "messages": [{"role": "system", "content": prompt}, {"role": "user", "content": text}],
        "temperature": TEMPERATURE,
        "max_tokens": model.max_tokens,
        "stream": False,
    }
    try:
        client = httpx.AsyncClient(timeout=REQUEST_SECONDS, proxy=model.proxy)
    except (ValueError, httpx.InvalidURL, ImportError) as error:
        raise NoTagsError(
            f"代理 {model.proxy!r} 不可用", f"the proxy {model.proxy!r} cannot be used: {error}"
        ) from error
    async with client:
        for attempt in range(ATTEMPTS):
            try:
                return find_tags(await _ask_once(client, body, model))
            except _AgainError as error:
                reason = str(error)
            if attempt < len(WAITS):
                await pause(WAITS[attempt])
    raise NoTagsError(
        f"标签模型 {model.model!r} 失败了 {ATTEMPTS} 次",
        f"the tag model {model.model!r} failed {ATTEMPTS} times: {reason}",
    )


def prompt_folders(plugin_folder: Path) -> tuple[Path, ...]:
    """Where a plugin looks for the tagger's prompt: in its own folder, then in that of DailyNoteWrite beside it."""
    return plugin_folder, plugin_folder.parent / "DailyNoteWrite"


def read_prompt(folders: Sequence[Path], name: str) -> str:
    """The tagger's prompt, from the first folder that has the file; it must lie inside that folder (B3)."""
    folder = next((folder for folder in folders if _is_file(folder, name)), folders[0])
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise NoTagsError(
                f"TagModelPrompt={name!r} 指向插件目录之外", f"TagModelPrompt={name!r} leads out of the plugin folder"
            )
        with path.open("rb") as file:
            data = file.read(MAX_PROMPT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NoTagsError(
            f"无法读取 TagModelPrompt={name!r}", f"TagModelPrompt={name!r} cannot be read: {error}"
        ) from error
    if len(data) > MAX_PROMPT_BYTES:
        raise NoTagsError(
            f"TagModelPrompt={name!r} 超过 {MAX_PROMPT_BYTES} 字节",
            f"TagModelPrompt={name!r} is over {MAX_PROMPT_BYTES} bytes",
        )
    prompt = data.decode("utf-8-sig", "replace").strip()
    if not prompt:
        raise NoTagsError(f"TagModelPrompt={name!r} 是空的", f"TagModelPrompt={name!r} is empty")
    return prompt


def _is_file(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):
        return False


async def _ask_once(client: httpx.AsyncClient, body: dict[str, object], model: TagModel) -> str:
    """The text of the model's answer."""
    url = f"{model.base_url}/v1/chat/completions"
    headers = {"Authorization": f"Bearer {model.key}"}
    answer = bytearray()
    try:
        # httpx limits each read; a server that drips bytes would pass those limits for ever.
        async with (
            asyncio.timeout(REQUEST_SECONDS),
            client.stream("POST", url, json=body, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise NoTagsError(
                        f"标签模型的回答超过 {MAX_ANSWER_BYTES} 字节",
                        f"the tag model's answer is over {MAX_ANSWER_BYTES} bytes",
                    )
    except TimeoutError as error:
        raise _AgainError(f"no answer within {REQUEST_SECONDS:.0f} s") from error
    except httpx.TransportError as error:
        raise _AgainError(f"{type(error).__name__}: {error}") from error
    except (httpx.InvalidURL, httpx.DecodingError, UnicodeError) as error:
        raise NoTagsError(
            "请求标签模型失败", f"the request to the tag model failed: {type(error).__name__}: {error}"
        ) from error
    if response.status_code in _RETRIED:
        raise _AgainError(f"status {response.status_code}: {_excerpt(answer)}")
    if response.status_code != 200:
        raise NoTagsError(
            f"标签模型的回答状态为 {response.status_code}",
            f"the tag model answered status {response.status_code}: {_excerpt(answer)}",
        )
    try:
        content = json.loads(answer)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise NoTagsError(
            "标签模型的回答格式不对", f"the tag model's answer is no chat completion: {_excerpt(answer)}"
        ) from error
    if not isinstance(content, str):
        raise NoTagsError("标签模型的回答没有文本", "the tag model's answer has no text")
    return content


def find_tags(reply: str) -> str:
    """The normalised tag line of a reply that holds one ``[[Tag: …]]``."""
    found = _TAGS.search(reply)
    if found is None or not found[1].strip(" ,，、：\t\u3000"):
        raise NoTagsError("标签模型的回复中没有 [[Tag: …]]", "the tag model's reply holds no [[Tag: …]]")
    if len(found[1]) > MAX_TAG_LINE_CHARS:
        raise NoTagsError(
            f"标签行超过 {MAX_TAG_LINE_CHARS} 个字符",
            f"the tag model's Tag line is over {MAX_TAG_LINE_CHARS} characters",
        )
    return normalise_tags(found[1])


def _excerpt(answer: bytearray) -> str:
    return " ".join(bytes(answer[:300]).decode("utf-8", "replace").split())
