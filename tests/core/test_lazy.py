import subprocess
import sys

import pytest

from paddock.core.errors import InputError
from paddock.core.lazy import load, require


def test_load_by_dotted_name():
    assert load("paddock.core.cadence.Every").__name__ == "Every"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("paddock.core.cadence.Evry", "Did you mean 'Every'"),
        ("paddock.nowhere.Thing", "no module 'paddock.nowhere'"),
        ("Thing", "package.module.Name"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name, message):
    with pytest.raises(InputError, match=message):
        load(name)


def test_a_missing_extra_is_named():
    with pytest.raises(InputError, match=r"pip install 'paddock\[atari\]'"):
        require("no_such_module", extra="atari", purpose="Atari")


def test_importing_the_package_and_its_help_imports_nothing_heavy():
    heavy = ["torch", "numba", "gymnasium", "hydra", "pydantic", "scipy", "tensorboard"]
    code = f"import sys, paddock, paddock.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
