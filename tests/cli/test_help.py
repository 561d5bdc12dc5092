"""`--help` of every verb, read as a newcomer reads it."""

import re

import pytest

from paddock.cli.main import VERBS, main

TRACKS = [["tracks", name] for name in ("list", "show", "generate", "import")]


@pytest.fixture
def help_of(monkeypatch, capsys):
    """The exit code and the text of `paddock ARGUMENTS`."""

    def ask(*arguments):
        monkeypatch.setattr("sys.argv", ["paddock", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr().out

    return ask


@pytest.mark.parametrize("verb", [*([name] for name in VERBS), *TRACKS], ids=" ".join)
def test_help_shows_flags_without_a_type_and_no_stray_blanks(help_of, verb):
    code, text = help_of(*verb, "--help")
    assert code == 0
    assert f"Usage: paddock {' '.join(verb)} " in text
    for oddity in ("<bool>", "<str>", "list[str]", " .", "...}", "......", "completion"):
        assert oddity not in text.replace(" ...]", ""), oddity
    assert re.search(r"--help +Show this message and exit\.", text)


def test_paddock_alone_prints_its_help_and_succeeds(help_of):
    code, text = help_of()
    assert code == 0
    assert all(f" {verb} " in text for verb in VERBS)
    assert "--install-completion" in text, "completion is installed for the whole program"
    assert help_of("tracks")[0] == 0


def test_help_of_train_has_examples_that_it_understands(help_of):
    _, text = help_of("train", "--help")
    examples = re.findall(r"^ +paddock (train .*)$", text, re.MULTILINE)
    assert len(examples) >= 2
    assert any("--seed 1,2,3 --jobs 2" in one for one in examples)
    for one in examples:
        if "--resume" not in one:
            code, shown = help_of(*[word for word in one.split() if word not in ("--jobs", "2")], "--print-config")
            assert code == 0
            assert "total_steps" in shown


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("compare", "paddock compare [OPTIONS] RUN..."),
        ("race", "paddock race [OPTIONS] RUN|POLICY..."),
        ("dashboard", "paddock dashboard [OPTIONS] [RUN]"),
        ("train", "paddock train [OPTIONS] [EXPERIMENT] [KEY=VALUE ...]"),
    ],
)
def test_usage_reads_as_it_is_typed(help_of, verb, usage):
    assert f"Usage: {usage}\n" in help_of(verb, "--help")[1]
