"""How a run ends when what it works with fails: a sentence for people, in the run's folder and as the error raised."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from paddock.components.learners import LearnerLostError
from paddock.core.errors import PaddockError
from paddock.core.files import make_folder, replace_file

if TYPE_CHECKING:
    from paddock.orchestration.orchestrator import Orchestrator

log = logging.getLogger(__name__)


def by_environment(run: Orchestrator, error: BaseException) -> PaddockError:
    """A sentence for people; the traceback, which the author of the environment needs, goes to `faults/`."""
    message = f"{str(error) or type(error).__name__}, after {run.counters.agent_steps:,} steps."
    try:
        run.home.check()
        folder = run.run_folder.faults / f"step-{run.counters.agent_steps:012d}"
        make_folder(folder)
        replace_file(folder / "traceback.txt", "".join(traceback.format_exception(error)).encode())
        message += f" The traceback is kept in '{folder / 'traceback.txt'}'; what was saved before is whole."
    except (OSError, PaddockError) as trouble:
        log.warning("the traceback could not be kept: %s", trouble)
    run.fail(message)
    return PaddockError(message)


def by_files(run: Orchestrator, error: OSError) -> PaddockError:
    """A full disk, say, or one that has become read-only."""
    where, why = error.filename or run.run_folder.path, error.strerror or str(error)
    message = (
        f"'{where}' could not be written: {why}. What was saved before is whole; when there is room again, go on "
        f"with it: paddock train --resume {run.run_folder.path}"
    )
    run.fail(message)
    return PaddockError(message)


def by_learner(run: Orchestrator, error: LearnerLostError) -> PaddockError:
    """The update under way is cut off; everything else is saved, and a resumed run does that update again."""
    message = f"{error}, after {run.counters.agent_steps:,} steps, and its part of an update with it."
    try:
        saved = run.save(has_cut_off_update=True)
        message += f" Everything is saved in '{saved.name}'; "
    except (OSError, PaddockError) as trouble:
        message += f" The newest state could not be saved ({trouble}); "
    message += f"go on, with any number of learners: paddock train --resume {run.run_folder.path} learners=1"
    run.fail(message)
    return PaddockError(message)
