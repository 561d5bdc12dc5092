"""Tests of the racing world keep what they keep in a home of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("PADDOCK_HOME")
    os.environ["PADDOCK_HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    if before is None:
        del os.environ["PADDOCK_HOME"]
    else:
        os.environ["PADDOCK_HOME"] = before
