"""``POST /v1/embeddings`` (spec 1.6)."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.special_models import SpecialModels


class EmbeddingsRoute:
    """The endpoint, a plain ASGI route: a client that hangs up ends the upstream's work."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._models = SpecialModels(services)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            data = await read_body(scope, receive, self._services.settings.tool_body_limit_mb * 1024 * 1024)
        except ClientGoneError:
            return
        await self._models.embeddings(scope, receive, send, data)
