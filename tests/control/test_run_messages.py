"""The messages between run, server and page: declared once, and used by their names only."""

import re
from pathlib import Path

import pytest

import paddock
from paddock.control.messages import COMMANDS, EVENTS, PAGE_MESSAGES, PAGE_NEWS, Load, parse_command
from paddock.core.errors import InputError
from paddock.dashboard.page_messages import FILE, page_messages

SOURCE = Path(paddock.__file__).parent
SCRIPTS = "\n".join(file.read_text() for file in FILE.parent.glob("*.js") if file != FILE)


def test_messages_js_is_what_the_module_generates():
    assert FILE.read_text(encoding="utf-8") == page_messages(), "run python -m paddock.dashboard.page_messages"


def test_the_page_sends_only_commands_and_messages_that_are_declared():
    commands = set(re.findall(r"\bact\((?:this\.)?id, '(\w+)'", SCRIPTS))
    commands |= set(re.findall(r"this\.isPaused \? '(\w+)' : '(\w+)'", SCRIPTS)[0])
    assert commands <= set(COMMANDS)
    assert {"pause", "resume", "stop", "save", "load", "speed", "explore", "reward", "mode", "reset"} <= commands
    sent = set(re.findall(r"(?:send|wish)\(\{ type: '(\w+)'", SCRIPTS))
    assert sent == set(PAGE_MESSAGES)


def test_the_page_handles_only_news_that_are_declared():
    handled = set()
    for block in re.findall(r"_handlers\(\) \{.*?\n  \}", SCRIPTS, re.DOTALL):
        handled |= set(re.findall(r"^      (\w+):", block, re.MULTILINE))
    assert handled - {"snapshot", "link", "unknown"} <= set(PAGE_NEWS)
    assert {"scene", "status", "event", "gone"} <= handled


def test_every_event_that_is_written_is_declared():
    written = set()
    for file in SOURCE.rglob("*.py"):
        text = file.read_text()
        written |= set(re.findall(r"\b(?:run|run_folder|_run)\.(?:event|note)\(\s*\"(\w+)\"", text))
        written |= set(re.findall(r"partial\(self\._run\.event, \"(\w+)\"\)", text))
    assert written <= set(EVENTS)
    assert set(EVENTS) - written == {"stopped"}, "`finished` or `stopped` is a variable where a run ends"


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("dance", {}, "unknown command 'dance'; allowed: pause, resume"),
        ("paus", {}, "Did you mean 'pause'?"),
        (None, {}, "unknown command"),
        (["stop"], {}, "unknown command"),
        ("pause", {"folder": "/etc"}, "'pause' does not take 'folder'"),
        ("load", {"policy": "best", "folder": "/etc"}, "'load' does not take 'folder'"),
        ("load", {}, "'load' needs 'policy'"),
        ("load", {"policy": 5}, "policy is 5; it must be a text"),
        ("reward", {"term": "progress", "weight": "much"}, "weight is much; it must be a number"),
        ("reward", {"term": "progress", "weight": True}, "it must be a number"),
        ("reward", {"term": "progress", "weight": float("nan")}, "it must be a number"),
        ("reward", {"term": "progress", "weight": 10**400}, "it must be a number"),
        ("speed", {"factor": -1}, "allowed: 0.05 to 1000"),
        ("explore", {"on": 1}, "on is 1; it must be true or false"),
        ("mode", {"mode": "fly"}, "it must be one of manual, assisted, ai"),
        ("mode", {"mode": "assisted", "assist": 2}, "a share from 0 to 1"),
        ("ghost", {"kind": "best", "on": True}, "kind is best; it must be opponent"),
    ],
)
def test_parse_command_refuses_with_what_is_allowed(command, arguments, words):
    with pytest.raises(InputError) as refusal:
        parse_command(command, arguments, is_from_page=True)
    assert words in str(refusal.value)


def test_parse_command_gives_typed_commands():
    assert parse_command("speed", {"factor": None}).factor is None
    assert parse_command("speed", {"factor": 2}).factor == 2.0
    assert parse_command("save", {}, is_from_page=True).name is None
    assert parse_command("load", {"policy": "best", "folder": "/x"}) == Load("best", "/x")
