"""What can be wrong with an access token."""

from __future__ import annotations

from app.errors import ForbiddenError, UnauthorizedError, VcpError, both


class WrongTokenError(UnauthorizedError):
    """A token that is none of ours; ``why`` is for the log, in one line and without anything of the token."""

    code = "invalid_token"

    def __init__(self, *, why: str) -> None:
        super().__init__(both("访问令牌无效", "the access token is not valid"))
        self.why = why


class ExpiredTokenError(WrongTokenError):
    """A token that was a good one; whoever shows it needs a new one and is no intruder."""


class ScopeError(ForbiddenError):
    """A good token that does not allow enough."""

    code = "insufficient_scope"

    def __init__(self, wanted: str) -> None:
        super().__init__(both(f"访问令牌缺少权限：需要 {wanted}", f"the access token does not allow this: {wanted}"))


class IssuerError(VcpError):
    """The authorization server cannot be asked now."""

    status = 503
    code = "issuer_unavailable"

    def __init__(self) -> None:
        super().__init__(
            both("暂时无法向授权服务器核实令牌", "the authorization server cannot be asked about tokens now")
        )
