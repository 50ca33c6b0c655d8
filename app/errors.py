"""Every exception of the server. Errors carry the HTTP status that the web layer would answer with."""

from __future__ import annotations


def both(chinese: str, english: str) -> str:
    """A text for people, who read it in Chinese or in English (D20)."""
    return f"{chinese} / {english}"


class VcpError(Exception):
    """Root of all errors that the server raises on purpose.

    ``status`` is the HTTP status a route answers with, ``code`` a stable word for programs, the message is for people
    and names the thing at fault and the way out.
    """

    status = 500
    code = "internal_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequestError(VcpError):
    """The client sent something that cannot be used."""

    status = 400
    code = "invalid_request_error"


class UnauthorizedError(VcpError):
    """No key, or a wrong one."""

    status = 401
    code = "invalid_api_key"


class ForbiddenError(VcpError):
    """The client's address is blocked."""

    status = 403
    code = "forbidden"


class NotFoundError(VcpError):
    """Nothing has this path, id or name."""

    status = 404
    code = "not_found"


class ModelNotServedError(NotFoundError):
    """No upstream is configured for this model."""

    code = "model_not_found"


class CallDepthError(BadRequestError):
    """Chats and tools have called each other too often."""

    code = "call_depth_exceeded"


class BodyTimeoutError(VcpError):
    """The rest of a request body did not come."""

    status = 408
    code = "body_timeout"


class UnsupportedMediaError(VcpError):
    """The request body is compressed or written in a charset that is not read here."""

    status = 415
    code = "unsupported_media_type"


class BodyTooLargeError(VcpError):
    """The request body is over the limit of its route."""

    status = 413
    code = "body_too_large"


class TaskRefusedError(BadRequestError):
    """A tool call cannot be put off: too many wait, or its id is taken."""

    code = "task_refused"


class ConfigError(VcpError):
    """The installation cannot be started as it is configured."""

    code = "config_error"


class ManifestError(VcpError):
    """A plugin manifest cannot be used; the message names file and field."""

    code = "manifest_error"


class PromptLimitError(VcpError):
    """Prompt expansion grew past a stated limit."""

    status = 400
    code = "prompt_limit"


class UpstreamError(VcpError):
    """Root of everything that can go wrong between us and the model API."""

    status = 502
    code = "upstream_error"


class UpstreamStatusError(UpstreamError):
    """The upstream answered with a status other than 200; ``attempts`` were made.

    ``exhausted`` is true when the status is one that is retried and the attempts are used up. ``body`` holds the raw
    answer (cut at a limit), ``retry_after`` seconds if the upstream named them.
    """

    code = "upstream_status"

    def __init__(
        self,
        upstream_status: int,
        body: bytes,
        *,
        content_type: str = "",
        attempts: int = 1,
        exhausted: bool = False,
        retry_after: float | None = None,
    ) -> None:
        text = body[:2000].decode("utf-8", "replace")
        super().__init__(f"{both('上游返回状态码', 'upstream answered status')} {upstream_status}: {text}")
        self.upstream_status = upstream_status
        self.body = body
        self.content_type = content_type
        self.attempts = attempts
        self.exhausted = exhausted
        self.retry_after = retry_after


class UpstreamConnectError(UpstreamError):
    """No connection, or it broke before the first byte, after all attempts."""

    code = "upstream_unreachable"


class UpstreamBusyError(UpstreamError):
    """Every upstream for the model has as many requests as it may, and none ended in time."""

    status = 503
    code = "upstream_busy"


class UpstreamTimeoutError(UpstreamError):
    """A limit ran out: connecting, the first byte, or silence between two bytes (``phase`` names it)."""

    status = 504
    code = "upstream_timeout"

    def __init__(self, message: str, *, phase: str) -> None:
        super().__init__(message)
        self.phase = phase


class UpstreamBrokenError(UpstreamError):
    """The answer broke off after its first byte, or cannot be read."""

    code = "upstream_broken"


class EmbeddingError(VcpError):
    """No vector could be made of a text; what would have used it goes on without.

    ``retry_after`` are the seconds after which another attempt makes sense, 0 where nobody knows.
    """

    status = 503
    code = "embedding_failed"

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ShutdownError(VcpError):
    """The server stops while a request is running."""

    status = 503
    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__(both("服务器正在关闭，请稍后重试", "the server is shutting down, try again later"))
