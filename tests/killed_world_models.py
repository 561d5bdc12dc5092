"""World Models in a process of their own that a SIGKILL ends in the middle of a phase: `FOLDER PHASE`. A run that is in
the folder already goes on; it saves after every action."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import resumed_run
from quiet_runs import quiet_run
from world_model_cases import DREAMED, PICTURES

ACTIONS = 4  # of the phase that are performed; the next one is begun


def main(folder: Path, phase: str) -> None:
    runs = [RunFolder(path) for path in folder.glob("run*/")]
    fresh = None if runs else quiet_run(folder, None, *PICTURES, DREAMED)
    with resumed_run(runs[0], [], Console(quiet=True)) if runs else nullcontext(fresh) as run:
        perform, performed = run._perform, 0

        def saved_or_killed(action):
            nonlocal performed
            if action.phase.name == phase:
                if performed == ACTIONS or phase == "encode":
                    kill_when_called(run, action.hook)
                performed += 1
            perform(action)
            run._is_save_wanted = True

        run._perform = saved_or_killed
        run.run()
    sys.exit("the run was over before it was killed")


def kill_when_called(run, hook):
    """Let the process die inside the hook: when the environments step, or after some of the autoencoder's work."""
    owner, name = (run.context.experience.env, "step") if hook == "collect" else (run.workflow.vae, WORK[hook])
    method, calls = getattr(owner, name), 0

    def deadly(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == 1 + (hook == "encode"):
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments, **options)

    object.__setattr__(owner, name, deadly)


WORK = {"update_vae": "losses", "validate_vae": "losses", "encode": "encode"}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
