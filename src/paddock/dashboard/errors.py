"""What the server refuses, with the status that says so over HTTP."""

from __future__ import annotations

from paddock.core.errors import InputError


class Refused(InputError):
    """A request that cannot be fulfilled; `status` is HTTP's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
