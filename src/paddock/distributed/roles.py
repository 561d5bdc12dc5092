"""The three roles as classes for scripts, with the argument names that TMRL's users know where both have them.

Relay(port=55580).run()
Worker("sac_pendulum", model_history=10).run(test_episode_interval=20)
Trainer("sac_pendulum").run()
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from paddock.config.plugins import register_plugins
from paddock.distributed.address import dial_to
from paddock.distributed.relay import MOST_CONNECTIONS, RelayServer
from paddock.distributed.wire.addresses import DEFAULT_PORT, relay_folder
from paddock.distributed.worker import Tally, WorkerLoop, open_spool
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.training import Overrides, Run, as_overrides, train
from paddock.rollout.actor import load_policy

SCRIPTED = "paddock-script/Environment-v0"


class Relay:
    """What workers and a trainer meet at. keys_dir: certificates (`paddock relay init`), or this machine's token."""

    def __init__(
        self,
        port: int = DEFAULT_PORT,
        *,
        host: str = "",
        keys_dir: str | Path | None = None,
        max_workers: int = MOST_CONNECTIONS,
    ) -> None:
        folder = Path(keys_dir).expanduser() if keys_dir else relay_folder()
        self._server = RelayServer(folder, host=host, port=port, most_connections=max_workers + 1)

    def start(self) -> int:
        """Listen, and return at once; the port."""
        self._server.start()
        return self._server.port

    def stop(self) -> None:
        self._server.stop()

    def run(self, stop: threading.Event | None = None) -> None:
        """Listen until `stop` is set, or for ever."""
        self.start()
        try:
            (stop or threading.Event()).wait()
        finally:
            self.stop()


class Worker:
    """An environment and a policy that collect for a trainer.

    env_cls: a Gymnasium environment class (or anything that makes one) in place of the experiment's. model_path: a
    policy to act with, for `run(expert=True)`. model_history: keep every n-th version of the weights. crc_debug: send
    every transition twice, for the trainer to compare. max_samples_per_episode: truncate episodes after so many steps.
    """

    def __init__(
        self,
        experiment: str | None = None,
        overrides: Overrides = (),
        *,
        config: str | Path | None = None,
        env_cls: Callable[..., gymnasium.Env] | None = None,
        name: str | None = None,
        invitation: str | Path | None = None,
        keys_dir: str | Path | None = None,
        spool: str | Path | None = None,
        model_path: str | Path | None = None,
        model_history: int = 0,
        crc_debug: bool = False,
        max_samples_per_episode: int | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        register_plugins(plugins)
        self._request = Request(experiment, Path(config) if config else None, overrides=[])
        self._overrides = _with_environment(as_overrides(overrides), env_cls)
        if not any(text.startswith("experience=") for text in self._overrides):
            self._overrides.insert(0, "experience=relay")
        self._overrides += [
            f"experience.history_every={model_history}",
            f"experience.check_samples={str(crc_debug).lower()}",
        ]
        if max_samples_per_episode is not None:
            self._overrides.append(f"environment.max_episode_steps={max_samples_per_episode}")
        self._name, self._model_path = name, model_path
        self._dial = dial_to(invitation, Path(keys_dir).expanduser() if keys_dir else None)
        self._spool = Path(spool) if spool else None

    def run(
        self,
        test_episode_interval: int = 0,
        nb_episodes: int | None = None,
        *,
        expert: bool = False,
        stop: threading.Event | None = None,
    ) -> Tally:
        """Collect until `stop` is set or so many episodes have ended. expert: act with `model_path` alone."""
        chosen = [*self._overrides, f"experience.test_every={test_episode_interval}"]
        label = self._request.experiment or (self._request.user.stem if self._request.user else "")
        settings, _ = resolve(Request(self._request.experiment, self._request.user, None, None, None, chosen))
        options: Any = settings.experience
        spool = open_spool(label, self._spool, options.spool_megabytes * 2**20)
        loop = WorkerLoop(
            settings,
            self._dial,
            name=self._name or f"{socket.gethostname()}-{Path(spool.name).name}",
            spool=spool,
            experiment=label,
            policy=load_policy(self._model_path) if expert and self._model_path else None,
            history=Path(spool.name) / "policies",
        )
        return loop.run(stop or threading.Event(), episodes=nb_episodes)


class Trainer:
    """A run that learns from what workers collect. Arguments as of `paddock.train`."""

    def __init__(
        self,
        experiment: str | None = None,
        overrides: Overrides = (),
        *,
        env_cls: Callable[..., gymnasium.Env] | None = None,
        invitation: str | Path | None = None,
        keys_dir: str | Path | None = None,
        **options: Any,
    ) -> None:
        chosen = _with_environment(as_overrides(overrides), env_cls)
        if not any(text.startswith("experience=") for text in chosen):
            chosen.insert(0, "experience=relay")
        where: Mapping[str, Any] = {"experience.invitation": invitation, "experience.relay_folder": keys_dir}
        chosen += as_overrides({key: str(value) for key, value in where.items() if value is not None})
        self._experiment, self._overrides, self._options = experiment, chosen, options

    def run(self) -> Run:
        """Train to the end, or until interrupted."""
        return train(self._experiment, overrides=self._overrides, **self._options)

    def run_with_wandb(self, project: str = "paddock", *, mode: str = "online") -> Run:
        """The same, with Weights & Biases (extra `wandb`). The key is wandb's own affair: `wandb login`."""
        more = [f"logging.wandb={mode}", f"logging.wandb_project={project}"]
        return train(self._experiment, overrides=[*self._overrides, *more], **self._options)


def _with_environment(overrides: list[str], env_cls: Callable[..., gymnasium.Env] | None) -> list[str]:
    if env_cls is None:
        return overrides
    gymnasium.registry.pop(SCRIPTED, None)
    gymnasium.register(SCRIPTED, entry_point=env_cls)
    return ["environment=gym", f"environment.id={SCRIPTED}", "environment.num_envs=1", *overrides]
