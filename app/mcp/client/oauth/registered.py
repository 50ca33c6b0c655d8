"""What an entry says about signing in (MCP-76)."""

from __future__ import annotations

from collections.abc import Sequence

from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata
from pydantic import AnyUrl

from app.errors import both
from app.mcp.client.oauth.errors import SignInError


class RegisteredClient:
    """What an entry says about signing in (MCP-76): a client that the authorization server knows already, and scopes.

    A ``client_id`` that is an ``https`` address without a secret is that of a client metadata document, which is used
    where the server takes such.
    """

    def __init__(self, client_id: str = "", client_secret: str = "", scopes: Sequence[str] = ()) -> None:
        self.metadata_url = client_id if is_valid_client_metadata_url(client_id) and not client_secret else None
        self.client_id = "" if self.metadata_url else client_id
        self.client_secret = client_secret
        self.scopes = " ".join(scopes)

    def information(self, redirect_uri: str, issuer: str) -> OAuthClientInformationFull | None:
        """The client, bound to the issuer that it was first used with; None when none is registered."""
        if not self.client_id:
            return None
        return OAuthClientInformationFull(
            client_id=self.client_id,
            client_secret=self.client_secret or None,
            token_endpoint_auth_method="client_secret_basic" if self.client_secret else "none",
            redirect_uris=[AnyUrl(redirect_uri)],
            issuer=issuer or None,
        )

    def is_less_than(self, client: OAuthClientInformationFull | None, scopes: str) -> bool:
        """Whether we registered this client for less than ``scopes``, so that it has to be registered anew."""
        if client is None or client.scope is None or self.client_id:
            return False
        return not set(scopes.split()) <= set(client.scope.split())

    def check_registration(self, metadata: OAuthMetadata | None, *, issuer: str, redirect_uri: str) -> None:
        """Raises SignInError unless a client may be registered now; ``issuer`` is the one that was known before.

        A registered client is never replaced: its secret belongs to one issuer, whatever the server says today.
        """
        if self.client_id:
            raise SignInError(
                both(
                    f"授权服务器不再是 {issuer}：oauth.clientId 属于原服务器；确认无误后先退出登录"
                    "（vcp mcp-check 服务器 --sign-out）",
                    f"the authorization server is not {issuer} any more, where oauth.clientId belongs; if that is "
                    "right, sign out first (vcp mcp-check SERVER --sign-out)",
                )
            )
        if metadata is not None and metadata.registration_endpoint is None:
            raise SignInError(
                both(
                    f"授权服务器不允许自行注册：请在其处注册一个客户端（回调地址 {redirect_uri}），"
                    "并在条目中填写 oauth.clientId",
                    "the authorization server lets no client register itself: register one there with the redirect "
                    f"address {redirect_uri}, and name it as oauth.clientId in the entry",
                )
            )


def check_pkce(metadata: OAuthMetadata | None) -> None:
    """Raises SignInError when the authorization server does not announce S256; None is one that announces nothing."""
    if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise SignInError(
            both("授权服务器未声明支持 PKCE S256", "the authorization server does not say that it knows PKCE S256")
        )
