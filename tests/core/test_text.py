"""Text from files, made safe for a terminal."""

import pytest

from paddock.core.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ümlaut ◆ 車 [red]", "plain ümlaut ◆ 車 [red]"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x00\x7f", "\\x00\\x7f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        (3.5, "3.5"),
    ],
)
def test_printable_writes_out_what_a_terminal_would_act_on(text, shown):
    assert printable(text) == shown
    shown.encode()


def test_printable_keeps_the_layout_that_it_is_told_to_keep():
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"
