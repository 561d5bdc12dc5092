"""A training run as its service sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paddock.control.service import RunState
from paddock.rollout.actor import ActorModule

if TYPE_CHECKING:
    from paddock.orchestration.orchestrator import Orchestrator

FRAMES_PER_SECOND = 30.0  # of an environment that does not say


class OrchestratedRun:
    """Implements `paddock.control.service.ServedRun` over an orchestrator."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator, self._collector = orchestrator, orchestrator.context.collector
        self._environment: Any = orchestrator.context.environment
        self.control = orchestrator.control
        self.folder = orchestrator.run_folder.path
        self.make_env = orchestrator.make_eval_env
        self.view = getattr(self._environment, "view", None)
        self.time_step = 1.0 / float(self._environment.metadata.get("render_fps") or FRAMES_PER_SECOND)
        self.set_reward_weight = getattr(self._environment, "set_reward_weight", None)

    def state(self) -> RunState:
        orchestrator, phase = self._orchestrator, self._orchestrator.scheduler.current_phase()
        return RunState(
            agent_steps=orchestrator.counters.agent_steps,
            seconds=orchestrator.seconds,
            phase=phase.name if phase else None,
            is_paused=orchestrator.is_paused,
            explores=self._collector.explores,
            latest=orchestrator.metrics.latest,
        )

    def actor(self) -> ActorModule:
        return self._orchestrator.workflow.actor()

    def reward_weights(self) -> dict[str, float]:
        return {name: float(weight) for name, weight in getattr(self._environment, "reward_weights", {}).items()}

    def set_exploring(self, explores: bool) -> None:
        self._collector.explores = explores

    def set_step_hook(self, hook: Callable[[], None] | None) -> None:
        self._collector.after_step = hook

    def save_by_hand(self, name: str | None) -> str:
        return self._orchestrator.save_by_hand(name)

    def note(self, event: str, **details: Any) -> None:
        orchestrator = self._orchestrator
        orchestrator.run_folder.event(event, agent_steps=orchestrator.counters.agent_steps, **details)
