"""World Models (arXiv:1803.10122): see with an autoencoder (V), remember with an MDN-RNN (M), and evolve a small
controller (C) by CMA-ES, in the environment or inside the dream. The phases in YAML are the curriculum.

Shapes: B windows of T rows, P candidates of S episodes each, L latent numbers, W numbers of a controller.

Metrics: train/vae_reconstruction, train/vae_kl, train/vae_validation, train/vae_stale; train/memory_latent,
train/memory_reward, train/memory_end, train/memory_validation_latent, train/memory_stale, train/memory_baseline;
train/evolve_return, train/evolve_return_best, train/dream_return, train/sigma, train/generation.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from paddock.buffers.latents import LOG_VARIANCE, MEAN, LatentBuffer, pieces
from paddock.components.actions import previous_actions, to_vector
from paddock.components.controllers.cma_es import CMAES
from paddock.components.dynamics.dream import Dream, Ends, repeated
from paddock.components.dynamics.mdn_rnn import mdn_losses
from paddock.components.dynamics.rssm import Latent
from paddock.components.learning import is_frozen
from paddock.components.representation_learners.conv_vae import sample_latent
from paddock.config.schema import Part, Schema, TargetSchema, instantiate
from paddock.core.errors import InputError
from paddock.core.seeding import derive_seed
from paddock.rollout.evolved_actor import EvolvedActor
from paddock.workflows.base import Metrics, Phase, Workflow, without_batch
from paddock.workflows.context import WorkflowContext

Sample = dict[str, Any]
BLOCK = 64  # rows that are held out together
TRIES = 50


class ValidationConfig(Schema):
    """Rows that are held out: every `every`-th block of 64 rows. batch: rows, or windows, that a loss is measured on;
    tolerance: the share by which a loss has to fall to count as progress."""

    every: int = Field(ge=2)
    batch: int = Field(ge=1)
    tolerance: float = Field(ge=0)


class DreamConfig(Schema):
    """Dreams that candidates are tried in: how many for each, how long at most, from latents that `context` rows of
    replay led to; see components/dynamics/dream.py."""

    starts: int = Field(ge=1)
    max_steps: int = Field(ge=1)
    context: int = Field(ge=1)
    temperature: float = Field(gt=0)
    ends: Ends
    begins: Literal["first_rows", "any_rows"]


class WorldModelsConfig(TargetSchema):
    """Options of World Models.

    population: candidates in a generation; starts: episodes of each, of at most `max_episode_steps` decisions.
    reward_coef, end_coef: what those losses of the memory count beside the latent's; end_weight: how many times an end
    counts among the steps that are none.
    """

    evolution: Part
    population: int = Field(ge=4)
    starts: int = Field(ge=1)
    max_episode_steps: int = Field(ge=1)
    reward_coef: float = Field(ge=0)
    end_coef: float = Field(ge=0)
    end_weight: float = Field(gt=0)
    latents: str
    validation: ValidationConfig
    dream: DreamConfig


class WorldModels(Workflow):
    """Needs components `vae`, `memory`, `controller`, optimizers `vae` and `memory`, a controller that is an
    `EvolvedActor` as the default, and a `LatentBuffer` under the name `latents` gives."""

    config: WorldModelsConfig
    can_pipeline = False  # Evolution runs episodes of its own in between.

    def initialize(self, context: WorkflowContext) -> None:
        super().initialize(context)
        config, parts = self.config, context.components
        self.vae, self.memory, self.controller = parts["vae"], parts["memory"], parts["controller"]
        self.optimizers = context.optimizers
        self.seed = int(torch.randint(2**31, ()))
        self._check_sizes(context.experience.num_envs)
        options = config.evolution.model_copy(update={"population": config.population})
        self.search: CMAES = instantiate(
            options, self.controller.get_vector().double().numpy(), seed=derive_seed(self.seed, "evolution")
        )
        self._validated: dict[str, dict[str, float]] = {}  # by phase: the lowest loss, and how often it was not lowered

    def update(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One gradient step of whatever learns from the phase's buffer: the memory from latents, the autoencoder from
        frames. They learn one after the other, so no batch is for both."""
        is_of_latents = isinstance(self.context.buffers[phase.buffer or ""], LatentBuffer)
        return (self.update_memory if is_of_latents else self.update_vae)(batch, phase=phase)

    # --- see ---

    def update_vae(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One gradient step of the autoencoder on frames that are not held out."""
        frames = self._frames(batch, self._is_training(batch["index"]))
        if not is_frozen(self.vae):
            self.vae.learn_scale(frames)
        losses = self.vae.losses(frames)
        if not losses:  # Nothing to learn in order to see.
            return {}
        loss = torch.stack(list(losses.values())).sum()
        metrics: Metrics = {f"train/vae_{name}": value.detach() for name, value in losses.items()}
        if not is_frozen(self.vae):
            metrics["train/vae_gradient_norm"] = self.optimizers["vae"].descend(loss)
        return metrics

    @without_batch
    def validate_vae(self, *, phase: Phase) -> Metrics:
        """The autoencoder's loss on frames that are held out, the same ones every time."""
        rows = self._held_out(phase, 1)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            losses = self.vae.losses(self._frames(rows, torch.ones(rows["reward"].shape, dtype=torch.bool)))
        return self._judged("vae", losses, phase)

    @without_batch
    def encode(self, *, phase: Phase) -> Metrics:
        """Everything in the phase's buffer into means and log-variances, once: they replace the pictures."""
        source, latents = self.context.buffers[phase.buffer or ""], self.context.buffers[self.config.latents]
        assert isinstance(latents, LatentBuffer), f"buffer '{self.config.latents}' is no LatentBuffer"
        numbers = getattr(self.vae, "numbers", None)
        if numbers is not None and not numbers.moments.count:
            rows: Any = getattr(source, "sequences", source)
            for copy in range(rows.num_envs):
                for piece in pieces(rows, copy):
                    self.vae.learn_scale(self._on_device(piece["observation"]))
        count = latents.fill_from(source, lambda seen: self.vae.encode(self._on_device(seen)))
        return {"train/encoded_rows": count}

    # --- remember ---

    def update_memory(self, batch: Sample, *, phase: Phase) -> Metrics:
        """One gradient step of the memory; latents are drawn anew for every batch (Sec. 3.2)."""
        is_learning = not is_frozen(self.memory)
        with torch.set_grad_enabled(is_learning):
            losses = self._memory_losses(batch, self._is_training(batch["index"]))
            loss = self._memory_loss(losses)
        metrics: Metrics = {f"train/memory_{name}": value.detach() for name, value in losses.items()}
        if is_learning:
            metrics["train/memory_gradient_norm"] = self.optimizers["memory"].descend(loss)
        return metrics

    @without_batch
    def validate_memory(self, *, phase: Phase) -> Metrics:
        """The memory's losses on windows that end in held-out rows, and what a memory would have that expects of every
        latent number the mean and deviation that it has over these windows."""
        rows = self._held_out(phase, None)
        is_held_out = ~self._is_training(rows["index"])
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            losses = self._memory_losses(rows, is_held_out)
        latent = rows["observation"][MEAN].flatten(0, 1)
        spread = latent.var(0) + rows["observation"][LOG_VARIANCE].exp().flatten(0, 1).mean(0)
        baseline = 0.5 * (torch.log(2 * torch.pi * spread.clamp(min=1e-8)) + 1).mean()
        judged = self._judged("memory", {"latent": losses["latent"]}, phase)
        more = {f"train/memory_validation_{name}": float(losses[name]) for name in ("reward", "end")}
        return {**judged, **more, "train/memory_baseline": float(baseline)}

    # --- evolve ---

    @without_batch
    def evolve(self, *, phase: Phase) -> Metrics:
        """One generation in the environment: every candidate drives the same starts, which are new each time."""
        experience: Any = self.context.experience
        generation = self.search.generation
        with self._actor().acting_as(self._ask()):
            episodes = experience.run_episodes(
                self._actor(),
                seed=derive_seed(self.seed, "generation", generation),
                starts=self.config.starts,
                max_steps=self.config.max_episode_steps,
            )
        for buffer in self.context.buffers.values():
            buffer.mark_discontinuity()
        counters = self.context.counters
        counters.agent_steps += episodes.steps
        counters.env_frames += episodes.env_frames
        return self._tell(episodes.returns, "evolve", float(episodes.lengths.mean()))

    @without_batch
    def evolve_in_dream(self, *, phase: Phase) -> Metrics:
        """One generation inside the memory: no step of the environment is taken."""
        config = self.config.dream
        candidates = self._ask()
        with torch.inference_mode():
            start = repeated(self.dream_starts(config.starts), self.config.population)
            with self._actor().acting_as(candidates):
                returns, lengths = self.dream_returns(start, temperature=config.temperature)
        self.context.counters.imagined_steps += int(lengths.sum())
        return self._tell(returns.double().numpy(), "dream", float(lengths.mean()))

    def dream_returns(self, start: Latent, *, temperature: float) -> tuple[Tensor, Tensor]:
        """Returns and lengths [B] of the actor's dreams from latents [B, ...]."""
        actor, config = self._actor(), self.config.dream
        dream = Dream(actor.world_model, temperature=temperature, ends=config.ends)
        latent, total = start, torch.zeros(len(next(iter(start.values()))))
        length, is_running = torch.zeros_like(total), torch.ones_like(total, dtype=torch.bool)
        for _ in range(config.max_steps):
            latent, reward, ended = dream.step(latent, actor.decide(actor.world_model.features(latent)))
            total += torch.where(is_running, reward, 0.0)
            length += is_running
            is_running &= ~ended
            if not is_running.any():
                break
        return total, length

    def dream_starts(self, count: int) -> Latent:
        """Latent states [count, ...] that rows of replay led to; none of them is of an episode that is over."""
        config, buffer = self.config.dream, self.context.buffers[self.config.latents]
        found: list[Latent] = []
        for _ in range(TRIES):
            rows = self._turned(buffer.sample(4 * count, config.context))  # type: ignore[call-arg]
            states = self._actor().world_model.follow(rows["latent"], rows["previous_actions"], rows["is_first"])
            is_open = ~(rows["terminated"] | rows["truncated"])[-1]
            if config.begins == "first_rows":
                is_open &= rows["is_first"][-1]
            found.append({name: part[-1][is_open] for name, part in states.items()})
            if sum(len(one["latent"]) for one in found) >= count:
                return {name: torch.cat([one[name] for one in found])[:count] for name in found[0]}
        raise InputError(
            f"not enough dreams can begin: fewer than {count} of the rows drawn from '{self.config.latents}' are "
            "such starts. Set workflow.dream.begins=any_rows, or collect more episodes."
        )

    # --- state ---

    def get_state(self) -> dict[str, Any]:
        return {"seed": self.seed, "search": self.search.get_state(), "validated": self._validated}

    def set_state(self, state: dict[str, Any]) -> None:
        self.seed = state["seed"]
        self.search.set_state(state["search"])
        self._validated = {name: dict(values) for name, values in state["validated"].items()}

    # --- inside ---

    def _ask(self) -> Tensor:
        """Candidates [P, W] as the controller computes with them."""
        return torch.from_numpy(self.search.ask()).float().to(self.context.device)

    def _tell(self, returns: np.ndarray, name: str, length: float) -> Metrics:
        """What the generation came to; the controller becomes the distribution's mean."""
        fitness = returns.reshape(self.config.population, -1).mean(1)
        self.search.tell(fitness)
        self.controller.set_vector(torch.from_numpy(self.search.mean))
        self.context.counters.updates += 1
        return {
            f"train/{name}_return": float(fitness.mean()),
            f"train/{name}_return_best": float(fitness.max()),
            f"train/{name}_return_std": float(fitness.std()),
            f"train/{name}_length": length,
            "train/sigma": self.search.sigma,
            "train/generation": self.search.generation,
        }

    def _actor(self) -> EvolvedActor:
        actor = self.actor()
        if not isinstance(actor, EvolvedActor):
            raise InputError(
                f"the phase's controller is {type(actor).__name__}, and evolution needs an EvolvedActor. Leave the "
                "phase's `controller` out, or name one that is."
            )
        return actor

    def _check_sizes(self, num_envs: int) -> None:
        population, starts = self.config.population, self.config.starts
        if population * starts != num_envs:
            raise InputError(
                f"workflow.population = {population} candidates times workflow.starts = {starts} episodes are "
                f"{population * starts} environments side by side, and environment.num_envs = {num_envs}. "
                f"Set environment.num_envs={population * starts}."
            )

    def _memory_losses(self, batch: Sample, is_counted: Tensor) -> dict[str, Tensor]:
        rows = self._turned(batch)
        return mdn_losses(
            self.memory,
            rows["latent"],
            rows["action"],
            rows["reward"],
            rows["terminated"],
            rows["is_first"],
            end_weight=self.config.end_weight,
            is_counted=is_counted.to(self.context.device).transpose(0, 1),
        )

    def _memory_loss(self, losses: dict[str, Tensor]) -> Tensor:
        scales = {"latent": 1.0, "reward": self.config.reward_coef, "end": self.config.end_coef}
        assert losses.keys() == scales.keys(), f"losses {sorted(losses)}, scales {sorted(scales)}"
        return torch.stack([scales[name] * loss for name, loss in losses.items()]).sum()

    def _turned(self, batch: Sample) -> Sample:
        """Windows [B, T, ...] to rows [T, B, ...], with a latent drawn for each."""

        def turned(values: Tensor) -> Tensor:
            return values.to(self.context.device).transpose(0, 1)

        seen = batch["observation"]
        rows = {name: turned(batch[name]) for name in ("reward", "terminated", "truncated", "is_first")}
        rows["latent"] = sample_latent(turned(seen[MEAN]), turned(seen[LOG_VARIANCE]))
        rows["action"] = to_vector(turned(batch["action"]), self.context.spec.action)
        rows["previous_actions"] = previous_actions(rows["action"], rows["is_first"])
        return rows

    def _frames(self, batch: Sample, is_wanted: Tensor) -> dict[str, Tensor]:
        """Observation parts [N, ...] of the wanted rows [B, T]."""
        return self._on_device({name: part[is_wanted] for name, part in batch["observation"].items()})

    def _on_device(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: part.to(self.context.device) for name, part in parts.items()}

    def _is_training(self, index: Tensor) -> Tensor:
        """Bool [B, T]: rows that are not held out, by their copy and number [B, T, 2]."""
        blocks = index[..., 1] // BLOCK + index[..., 0]
        return blocks % self.config.validation.every != 0

    def _held_out(self, phase: Phase, length: int | None) -> Sample:
        """Rows [K, length] that are held out, the same ones every time; of windows (`length` None), those whose last
        row is."""
        buffer: Any = self.context.buffers[phase.buffer or ""]
        generator = torch.Generator().manual_seed(derive_seed(0, "validation"))
        wanted, found = self.config.validation.batch, []
        for _ in range(TRIES):
            rows = buffer.sample(wanted, length, generator)
            chosen = ~self._is_training(rows["index"])[:, -1]
            found.append(_chosen(rows, chosen))
            if sum(len(one["reward"]) for one in found) >= wanted:
                break
        return _joined(found, wanted)

    def _judged(self, name: str, losses: dict[str, Tensor], phase: Phase) -> Metrics:
        """Metrics of held-out losses, and for how many validations there has been no progress."""
        loss = float(sum(losses.values()))
        before = self._validated.get(phase.name, {"lowest": float("inf"), "stale": 0.0})
        gain = before["lowest"] - loss
        is_better = not np.isfinite(before["lowest"]) or gain > self.config.validation.tolerance * abs(before["lowest"])
        stale = 0.0 if is_better else before["stale"] + 1
        # What was not enough counts towards the next gain.
        self._validated[phase.name] = {"lowest": loss if is_better else before["lowest"], "stale": stale}
        metrics = {f"train/{name}_validation_{key}": float(value) for key, value in losses.items()}
        return {**metrics, f"train/{name}_validation": loss, f"train/{name}_stale": stale}


def _chosen(rows: Sample, chosen: Tensor) -> Sample:
    """The windows of a batch that `chosen` [B] marks."""
    parts = {name: part[chosen] for name, part in rows["observation"].items()}
    return {**{name: value[chosen] for name, value in rows.items() if name != "observation"}, "observation": parts}


def _joined(found: list[Sample], count: int) -> Sample:
    """Several batches as one of at most `count` rows."""
    flat = {name: torch.cat([one[name] for one in found])[:count] for name in found[0] if name != "observation"}
    names = found[0]["observation"]
    return {
        **flat,
        "observation": {name: torch.cat([one["observation"][name] for one in found])[:count] for name in names},
    }
