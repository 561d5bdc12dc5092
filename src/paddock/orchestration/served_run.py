"""A training run as its service sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paddock.control.service import RunState
from paddock.rollout.actor import ActorModule

if TYPE_CHECKING:
    from paddock.orchestration.orchestrator import Orchestrator

SetWeight = Callable[[str, float], None]


class OrchestratedRun:
    """Implements `paddock.control.service.ServedRun` over an orchestrator."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator, self._experience = orchestrator, orchestrator.context.experience
        self.control = orchestrator.control
        self.folder = orchestrator.run_folder.path
        self.make_env = orchestrator.make_eval_env
        self.view = self._experience.view
        self.time_step = self._experience.time_step
        has_weights = bool(self._experience.reward_weights)
        self.set_reward_weight: SetWeight | None = self._experience.set_reward_weight if has_weights else None

    def state(self) -> RunState:
        orchestrator, phase = self._orchestrator, self._orchestrator.scheduler.current_phase()
        return RunState(
            agent_steps=orchestrator.counters.agent_steps,
            seconds=orchestrator.seconds,
            phase=phase.name if phase else None,
            is_paused=orchestrator.is_paused,
            explores=self._experience.explores,
            latest=orchestrator.metrics.latest,
            workers=self._experience.workers,
        )

    def actor(self) -> ActorModule:
        return self._orchestrator.workflow.actor()

    def reward_weights(self) -> dict[str, float]:
        return self._experience.reward_weights

    def set_exploring(self, explores: bool) -> None:
        self._experience.explores = explores

    def set_step_hook(self, hook: Callable[[], None] | None) -> None:
        self._experience.after_step = hook

    def save_by_hand(self, name: str | None) -> str:
        return self._orchestrator.save_by_hand(name)

    def note(self, event: str, **details: Any) -> None:
        orchestrator = self._orchestrator
        orchestrator.run_folder.event(event, agent_steps=orchestrator.counters.agent_steps, **details)
