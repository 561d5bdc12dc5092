"""Keeping an eye on a run: what the machine is doing, as `system/` metrics, and the alert rules."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import torch
from pydantic import Field

from paddock.components.devices import memory_in_use
from paddock.config.schema import Schema
from paddock.control.requests import Control
from paddock.experiments.run import RunFolder
from paddock.orchestration.monitoring.alerts import STALLED, AlertConfig, Alerts


class MonitoringConfig(Schema):
    """system_every_seconds: between two looks at the machine, None for none; alerts: rules by name, None is off."""

    system_every_seconds: float | None = Field(default=10.0, gt=0)
    alerts: dict[str, AlertConfig | None] = Field(default_factory=dict)

    @property
    def rules(self) -> dict[str, AlertConfig]:
        """The rules that are on."""
        return {name: rule for name, rule in self.alerts.items() if rule is not None}


class Monitor:
    """Looks at the machine from a thread of its own, so that the loop only ever picks up what is there."""

    def __init__(
        self, config: MonitoringConfig, run: RunFolder, control: Control, *, metric: str, agent_steps: Callable[[], int]
    ) -> None:
        self._every = config.system_every_seconds
        self._folder = run.path
        self._agent_steps = agent_steps
        self._alerts = Alerts(config.rules, metric, run, control)
        silences = [rule.seconds for rule in config.rules.values() if rule.when == STALLED]
        self._look_every = min([self._every or 60.0, *(seconds / 4 for seconds in silences)])
        self._sample: dict[str, float] = {}
        self._last_point = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)

    def start(self) -> None:
        self._last_point = time.monotonic()
        self._thread.start()

    def take_sample(self) -> dict[str, float]:
        """What was last seen of the machine, if that is new."""
        sample, self._sample = self._sample, {}
        return sample

    def check(self, new: Mapping[str, float], latest: Mapping[str, float]) -> None:
        """A point was logged."""
        self._last_point = time.monotonic()
        self._alerts.check(new, latest, self._agent_steps())

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._alerts.close()

    def _watch(self) -> None:
        process = psutil.Process()
        psutil.cpu_percent()
        process.cpu_percent()
        next_sample = time.monotonic() + (self._every or 0.0)
        while not self._ended.wait(self._look_every):
            if self._every is not None and time.monotonic() >= next_sample - 1e-3:
                self._sample = system_metrics(process, self._folder)
                next_sample = time.monotonic() + self._every
            self._alerts.check_silence(time.monotonic() - self._last_point, self._agent_steps())


def system_metrics(process: psutil.Process, folder: Path) -> dict[str, float]:
    """The machine and this process; processor shares since the last call."""
    memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(folder))
    found = {
        "system/cpu_percent": psutil.cpu_percent(),
        "system/memory_percent": memory.percent,
        "system/process_cpu_percent": process.cpu_percent(),
        "system/process_memory_gb": process.memory_info().rss / 1e9,
        "system/disk_percent": disk.percent,
        "system/disk_free_gb": disk.free / 1e9,
    }
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        found["system/gpu_memory_percent"] = 100.0 * (1.0 - free / total)
        found |= memory_in_use(torch.device("cuda"))
        with suppress(ModuleNotFoundError, RuntimeError):  # Needs NVIDIA's management library.
            found["system/gpu_percent"] = float(torch.cuda.utilization())
    return found
