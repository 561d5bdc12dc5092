"""Every key of TMRL's config.json: the option that it becomes here, or the reason why it becomes none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.core.errors import InputError

HOOKS = "training.phases.joint.workflow_hooks"


@dataclass(frozen=True)
class Mapped:
    """A key that becomes an option. note: where the two do not mean quite the same."""

    option: str
    convert: Callable[[Any, str], Any]
    note: str = ""


@dataclass(frozen=True)
class Dropped:
    """A key that becomes no option, and why."""

    reason: str


def number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"config.json: {key} is a number, not {str(value)[:60]!r}.")
    return value


def whole(value: Any, key: str) -> int:
    given = number(value, key)
    if given != int(given):
        raise InputError(f"config.json: {key} is a whole number, not {given}.")
    return int(given)


def truth(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"config.json: {key} is true or false, not {str(value)[:60]!r}.")
    return value


def optional_number(value: Any, key: str) -> float | None:
    return None if value is None else number(value, key)


def plain_name(value: Any, key: str) -> str:
    """Text without anything that YAML or Hydra would read as more than text."""
    kept = "".join(letter if letter.isalnum() or letter in "_-." else "-" for letter in str(value)[:100])
    return kept.strip("-.") or "unnamed"


def device(value: Any, key: str) -> str:
    return "auto" if truth(value, key) else "cpu"


def one_minus(value: Any, key: str) -> float:
    return round(1.0 - number(value, key), 12)


def not_negative(value: Any, key: str) -> int:
    return max(whole(value, key), 0)


NO_LOCAL_PORTS = Dropped("no process here needs a port of its own beside the relay's")
MUTUAL_TLS = Dropped("the relay always uses mutual TLS between machines: paddock relay init, paddock relay invite")
SECRET = "a secret; it is not copied"
IN_PRODUCT = "training.phases.joint.duration_updates"
BETAS = Dropped("without effect in TMRL, whose Adam always runs with 0.9 and 0.999, as it does here")
OLD_NETWORKING = Dropped("of TMRL's former networking; without effect in TMRL, too")

TOP: Mapping[str, Mapped | Dropped] = {
    "RUN_NAME": Mapped("name", plain_name),
    "RESET_TRAINING": Dropped("a new run is a new training; initial_weights begins with weights of another one"),
    "BUFFERS_MAXLEN": Dropped("steps wait on the worker's disk, up to experience.spool_megabytes"),
    "RW_MAX_SAMPLES_PER_EPISODE": Mapped("environment.ep_max_length", whole, "the smaller of it and RTGYM_CONFIG's"),
    "CUDA_TRAINING": Mapped("device", device),
    "CUDA_INFERENCE": Dropped("a worker acts on its processor"),
    "VIRTUAL_GAMEPAD": Mapped("environment.pad", lambda value, key: "gamepad" if truth(value, key) else "keyboard"),
    "LOCALHOST_WORKER": Mapped("experience", truth, "workers here if both are true, else relay"),
    "LOCALHOST_TRAINER": Mapped("experience", truth, "workers here if both are true, else relay"),
    "PUBLIC_IP_SERVER": Dropped("an invitation holds the relay's address: paddock relay init --address HOST"),
    "PASSWORD": Dropped(f"{SECRET}; invitations take its place"),
    "TLS": MUTUAL_TLS,
    "TLS_HOSTNAME": MUTUAL_TLS,
    "TLS_CREDENTIALS_DIRECTORY": MUTUAL_TLS,
    "NB_WORKERS": Dropped("the relay takes any number of workers; each needs an invitation"),
    "WANDB_PROJECT": Mapped("logging.wandb_project", plain_name),
    "WANDB_ENTITY": Dropped("W&B reads the entity from the variable WANDB_ENTITY"),
    "WANDB_KEY": Dropped(f"{SECRET}; log in with `wandb login`"),
    "PORT": Dropped("an option of the relay: paddock relay --port"),
    "LOCAL_PORT_SERVER": NO_LOCAL_PORTS,
    "LOCAL_PORT_TRAINER": NO_LOCAL_PORTS,
    "LOCAL_PORT_WORKER": NO_LOCAL_PORTS,
    "BUFFER_SIZE": Dropped("of tlspyo's local pipes, which do not exist here"),
    "HEADER_SIZE": Dropped("of tlspyo's frames, which do not exist here"),
    "MAX_EPOCHS": Mapped(IN_PRODUCT, whole, "epochs x rounds x steps"),
    "ROUNDS_PER_EPOCH": Mapped(IN_PRODUCT, whole, "epochs x rounds x steps"),
    "TRAINING_STEPS_PER_ROUND": Mapped(IN_PRODUCT, whole, "epochs x rounds x steps; also logging.every_updates"),
    "MAX_TRAINING_STEPS_PER_ENVIRONMENT_STEP": Mapped(f"{HOOKS}.update.ratio", number),
    "ENVIRONMENT_STEPS_BEFORE_TRAINING": Mapped("training.phases.seed.duration_steps", whole),
    "UPDATE_MODEL_INTERVAL": Mapped("experience.publish_every", whole),
    "UPDATE_BUFFER_INTERVAL": Mapped(f"{HOOKS}.update.at_most", whole),
    "SAVE_MODEL_EVERY": Mapped("experience.history_every", not_negative),
    "MEMORY_SIZE": Mapped("buffers.replay.capacity", whole),
    "BATCH_SIZE": Mapped("buffers.replay.batch_size", whole),
    "DEBUG_MODE": Mapped("debug", truth),
    "__VERSION__": Dropped("the version of the file's own format"),
    "DCAC": OLD_NETWORKING,
    "SELECT_TIMEOUT_OUTBOUND": OLD_NETWORKING,
    "WAIT_BEFORE_RECONNECTION": OLD_NETWORKING,
    "LOOP_SLEEP_TIME": OLD_NETWORKING,
}
OLD_PREFIXES = ("SOCKET_TIMEOUT_", "ACK_TIMEOUT_", "RECV_TIMEOUT_")

ALGORITHM: Mapping[str, Mapped | Dropped] = {
    "ALGORITHM": Mapped("workflow", plain_name),
    "LEARN_ENTROPY_COEF": Mapped("components.temperature.learned", truth),
    "ALPHA": Mapped("components.temperature.initial", number),
    "TARGET_ENTROPY": Mapped("components.temperature.target_entropy", optional_number),
    "LR_ACTOR": Mapped("optimizers.policy.learning_rate", number),
    "LR_CRITIC": Mapped("optimizers.critics.learning_rate", number),
    "LR_ENTROPY": Mapped("optimizers.temperature.learning_rate", number),
    "GAMMA": Mapped("workflow.gamma", number),
    "POLYAK": Mapped("workflow.tau", one_minus, "1 - POLYAK"),
    "REDQ_N": Mapped("components.critics.ensemble_size", whole, "TMRL itself always makes 10"),
    "REDQ_M": Mapped("workflow.subset", whole),
    "REDQ_Q_UPDATES_PER_POLICY_UPDATE": Mapped(f"{HOOKS}.update_policy.ratio", number, "the ratio divided by it"),
    "OPTIMIZER_ACTOR": Dropped("adam, which is the default"),
    "OPTIMIZER_CRITIC": Dropped("adam, which is the default"),
    "BETAS_ACTOR": BETAS,
    "BETAS_CRITIC": BETAS,
    "L2_ACTOR": Mapped("optimizers.policy.weight_decay", number, "decoupled from the learning rate's scaling here"),
    "L2_CRITIC": Mapped("optimizers.critics.weight_decay", number, "decoupled from the learning rate's scaling here"),
}
ONLY_REDQ = ("REDQ_N", "REDQ_M", "REDQ_Q_UPDATES_PER_POLICY_UPDATE")

ENVIRONMENT: Mapping[str, Mapped | Dropped] = {
    "RTGYM_INTERFACE": Mapped("environment.interface", plain_name, "full, lidar or lidar_progress"),
    "WINDOW_WIDTH": Mapped("environment.window_width", whole),
    "WINDOW_HEIGHT": Mapped("environment.window_height", whole),
    "IMG_WIDTH": Mapped("environment.image_width", whole),
    "IMG_HEIGHT": Mapped("environment.image_height", whole),
    "IMG_GRAYSCALE": Mapped("environment.grayscale", truth),
    "IMG_SCALE_CHECK_ENV": Dropped("of a window that does not exist here; the dashboard shows what the agent sees"),
    "LINUX_X_OFFSET": Dropped("the game's client area is found, whatever the desktop draws around it"),
    "LINUX_Y_OFFSET": Dropped("the game's client area is found, whatever the desktop draws around it"),
    "SLEEP_TIME_AT_RESET": Mapped("environment.sleep_at_reset", number),
    "IMG_HIST_LEN": Mapped("environment.history", whole),
}
# rtgym's own names, which environment: has, too.
RTGYM: Mapping[str, Mapped | Dropped] = {
    **{
        name: Mapped(f"environment.{name}", convert)
        for name, convert in {
            "time_step_duration": number,
            "start_obs_capture": number,
            "time_step_timeout_factor": number,
            "ep_max_length": whole,
            "act_buf_len": whole,
            "act_in_obs": truth,
            "reset_act_buf": truth,
            "last_act_on_reset": truth,
            "wait_on_done": truth,
        }.items()
    },
    "benchmark": Dropped("timing is always reported: paddock benchmark-realtime"),
    "benchmark_polyak": Dropped("timing is always reported: paddock benchmark-realtime"),
    "benchmark_type": Dropped("timing is always reported: paddock benchmark-realtime"),
    "interface": Dropped("RTGYM_INTERFACE says which one"),
    "interface_args": Dropped("arguments of TMRL's interface class, which is not used here"),
    "interface_kwargs": Dropped("arguments of TMRL's interface class, which is not used here"),
}
REWARD: Mapping[str, Mapped | Dropped] = {
    "END_OF_TRACK": Mapped("environment.reward.end_of_track", number),
    "CONSTANT_PENALTY": Mapped("environment.reward.constant_penalty", number),
    "CHECK_FORWARD": Mapped("environment.reward.check_forward", whole),
    "CHECK_BACKWARD": Mapped("environment.reward.check_backward", whole),
    "FAILURE_COUNTDOWN": Mapped("environment.reward.failure_countdown", whole),
    "MIN_STEPS": Mapped("environment.reward.min_steps", whole),
    "MAX_STRAY": Mapped("environment.reward.max_stray", number),
}
SECTIONS: Mapping[str, Mapping[str, Mapped | Dropped]] = {
    "ALG": ALGORITHM,
    "ENV": ENVIRONMENT,
    "ENV.RTGYM_CONFIG": RTGYM,
    "ENV.REWARD_CONFIG": REWARD,
}
