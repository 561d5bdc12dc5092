"""Playback of demonstrations in a real browser, from the page's own list."""

import json
import urllib.error
import urllib.request

import pytest
from pitwall import seen
from playwright.sync_api import expect

from demonstration_cases import make_episode, write_set
from viewer import token_of


def test_a_person_plays_demonstrations_from_the_list_of_the_page(server, pages):
    write_set(server.folder / "demonstrations" / "mine", make_episode(400, marked=True), make_episode(30, seed=1))
    page = pages.open(f"{server.address}#/drive")
    expect(page.locator(".demonstrations")).to_contain_text("mine · 2 episodes")
    page.get_by_role("button", name="Play mine").click()
    page.wait_for_url("**/#/drive/playback-mine*")
    expect(page.locator("img.video-frame")).to_be_visible()
    page.wait_for_function("() => document.querySelector('img.video-frame')?.naturalWidth > 700")
    expect(page.locator(".captions")).to_have_text("SeenDone")
    expect(page.get_by_role("heading", name="Playback")).to_be_visible()
    expect(page.get_by_text("Your laps")).to_be_hidden()
    seen(page, "s.status?.agent_steps > 20 && s.status.driver === 'classical'")
    page.get_by_role("button", name="Pause").click()
    seen(page, "s.status.status === 'paused'")
    page.get_by_role("button", name="Restart episode").click()
    seen(page, "s.status.seconds === 0")
    page.get_by_role("button", name="Resume").click()
    seen(page, "s.status.seconds > 0.2")
    page.get_by_role("button", name="End the playback").click()
    page.wait_for_url("**/#/drive")
    pages.assert_quiet(server.address)


def test_playback_of_what_is_not_listed_is_refused(server):
    headers = {"Authorization": f"Bearer {token_of(server.port)}", "Content-Type": "application/json"}
    for body in ({"id": "/etc"}, {"id": "../elsewhere"}, {"id": 3}):
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{server.address}api/demonstrations", data, headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == 404
        refused.value.close()
    assert server.ask("api/demonstrations") == []
