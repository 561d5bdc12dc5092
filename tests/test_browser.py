"""The browser of the tests themselves: a machine without one skips tests and leaves nothing behind."""

import gc

import psutil
import pytest

from browser import Browser


def test_a_machine_without_chromium_skips_and_leaves_nothing_to_clean_up(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PADDOCK_REQUIRE_BROWSER", raising=False)
    gc.collect()
    before = psutil.Process().num_fds()
    with pytest.raises(pytest.skip.Exception, match="no Chromium"):
        Browser()
    gc.collect()  # What was left open warns now, and warnings are errors.
    assert psutil.Process().num_fds() == before


def test_without_chromium_ci_fails_instead(monkeypatch):
    monkeypatch.setenv("PADDOCK_NO_BROWSER", "1")
    monkeypatch.setenv("PADDOCK_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="no Chromium"):
        Browser()
