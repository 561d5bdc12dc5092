import pytest


@pytest.fixture
def prepared(tmp_path):
    """Build any shipped experiment with overrides, quietly, in this process; gives its orchestrator."""

    def make(name, *overrides, run="run"):
        from rich.console import Console

        from paddock.experiments.run import RunFolder, manifest
        from paddock.orchestration.build import build
        from paddock.orchestration.launch import Request, resolve

        quiet = ["logging.terminal=false", "logging.tensorboard=false", f"runs_dir={tmp_path}"]
        config, _ = resolve(Request(name, name=run, overrides=[*quiet, *overrides]))
        values = config.model_dump(mode="json", by_alias=True)
        folder = RunFolder.create(tmp_path, run, values)
        folder.write_manifest(**manifest(values, seed=config.seed))
        return build(config, folder, Console(quiet=True))

    return make
