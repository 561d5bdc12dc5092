"""Fixtures of the pages' tests: servers over folders of their own, and browsers."""

import pytest

pytest.register_assert_rewrite("pitwall")  # its assertions show what they compared


@pytest.fixture
def pages(chromium_program):
    """Browser windows that note every complaint and every address: see pitwall.py."""
    from pitwall import PATIENCE, Pages
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        opened = Pages(playwright, chromium_program)
        yield opened
        opened.browser.close()


@pytest.fixture(scope="module")
def empty_server(chromium_program, tmp_path_factory):
    """A server over a folder without runs; not to be given any."""
    from pitwall import Server

    opened = Server(tmp_path_factory.mktemp("empty"))
    yield opened
    opened.close()


@pytest.fixture
def server(chromium_program, tmp_path):
    """A server of the test's own, which may be killed."""
    from pitwall import Server

    opened = Server(tmp_path)
    yield opened
    opened.close()
