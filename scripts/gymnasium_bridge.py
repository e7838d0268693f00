"""Serves a Gymnasium environment over optibfm's bridge.

    python3 gymnasium_bridge.py HalfCheetah-v5 --listen unix:/tmp/cheetah.sock
    python3 gymnasium_bridge.py Hopper-v5 --kwargs '{"terminate_when_unhealthy": false}'
    PYTHONPATH=../examples/gymnasium python3 gymnasium_bridge.py quadruped:Quadruped --kwargs '{"robot": "go1"}'

ENV_ID is an id that gymnasium.make knows, or MODULE:CLASS of an environment that is not registered. Observations are
flattened. Actions must be a bounded Box: its range becomes [-1, 1]. A seed gives the same episode every time. The only
task is `reward`, the environment's own, from the last step.

An episode ends for the client after the environment's time limit (default: 1,000 steps). Where the environment ends
it earlier, the last observation stays, with a reward of 0, until the next reset. In free mode, which has no resets, the
environment begins again a second later, and after its time limit, if it has one.

Pictures are those of render(), grey after the end of an episode. Environments with a mujoco_renderer, as all of MuJoCo
in Gymnasium, are rendered in another process instead, without the edges of the floor, by a camera that follows
the robot. """

from __future__ import annotations

import argparse
import copy
import io
import json
import math
import os
import threading

os.environ.setdefault("MUJOCO_GL", "egl")  # renders without a display

import install_hint
import optibfm_bridge as bridge

try:
    import gymnasium
    import numpy as np
    from PIL import Image
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e)

_EPISODE_STEPS = 1000  # of an environment without a time limit
_PAUSE = 1.0  # s, from the end of an episode to the next one in free mode
_PATIENCE = 2.0  # s, for a picture
_QUALITY = 80  # of a picture's JPEG
_SIDE = 320  # pixels: the longer side of a picture of MuJoCo, if the environment's is not shorter
_PLANE, _FIXED = 0, 2  # mjGEOM_PLANE of MuJoCo's mjtGeom, mjCAMERA_FIXED of its mjtCamera
_TRACK = "track"  # the name of the camera that follows the robot in Gymnasium's models


def make(env_id: str, **kwargs) -> gymnasium.Env:
    """Returns the environment without its time limit, which renders pictures if it can. env_id: see above."""
    kwargs.update(max_episode_steps=-1, disable_env_checker=True)  # no limit; no warnings about types of numbers
    kwargs.setdefault("render_mode", "rgb_array")
    try:
        try:
            return _make(env_id, **kwargs)
        except TypeError as e:
            if "'render_mode'" not in str(e):
                raise
        del kwargs["render_mode"]  # which this environment does not know
        return _make(env_id, **kwargs)
    except (gymnasium.error.Error, ImportError, AttributeError, TypeError) as e:
        raise ValueError(f"{env_id}: {e}") from e


def _make(env_id: str, **kwargs) -> gymnasium.Env:
    if ":" in env_id and env_id not in gymnasium.registry and not _registers(env_id):
        return gymnasium.make(gymnasium.envs.registration.EnvSpec("Unregistered-v0", entry_point=env_id), **kwargs)
    return gymnasium.make(env_id, **kwargs)


def _registers(env_id: str) -> bool:
    """Whether the part after the colon is an id, which the module registers, and not a class."""
    return "-v" in env_id.partition(":")[2]


def period_of(env: gymnasium.Env) -> float:
    """Returns the seconds of a step, of which Gymnasium has no common name."""
    dt, fps = getattr(env.unwrapped, "dt", None), env.metadata.get("render_fps")
    if isinstance(dt, (int, float)) and dt > 0:
        return float(dt)
    if fps:
        return 1 / fps
    raise ValueError(f"{env.spec.id}: neither dt nor render_fps; give --period SECONDS")


def names_of(space: gymnasium.Space, name: str = "obs") -> list[str]:
    """Returns a name for each element of the flattened space."""
    if isinstance(space, gymnasium.spaces.Dict):
        return [
            n for key, part in space.spaces.items() for n in names_of(part, key if name == "obs" else f"{name}.{key}")
        ]
    if isinstance(space, gymnasium.spaces.Tuple):
        return [n for i, part in enumerate(space.spaces) for n in names_of(part, f"{name}.{i}")]
    size = gymnasium.spaces.flatdim(space)
    return [name] if size == 1 else [f"{name}.{i}" for i in range(size)]


class Simulator:
    """A Gymnasium environment without a time limit, as a robot of the bridge. A subclass may have tasks of its own.

    env: its actions are a bounded Box. period: of a step, in seconds. limit: steps after which it begins again in free
    mode (default: never).
    """

    tasks, task = ["reward"], "reward"

    free = False  # the server sets it

    def __init__(self, env: gymnasium.Env, name: str, period: float, limit: int | None = None) -> None:
        self.env, self.episode_steps, self._limit = env, limit or _EPISODE_STEPS, limit or math.inf
        box = env.action_space
        if not (isinstance(box, gymnasium.spaces.Box) and box.is_bounded()):
            raise ValueError(f"{name}: the actions are {box}; only a bounded Box can be driven")
        low, high = box.low.astype(float), box.high.astype(float)
        self._middle, self._half = (high + low) / 2, (high - low) / 2
        self._pause = math.ceil(_PAUSE / period)  # steps
        self._pictures = _pictures(env) if env.render_mode == "rgb_array" else None
        self.spec = bridge.Spec(name=name, period=period, obs=self.observation_channels(),
                                action=self.action_channels())
        self.reset(0)

    def observation_channels(self) -> list[bridge.Channel]:
        return [bridge.Channel(n) for n in names_of(self.env.observation_space)]

    def action_channels(self) -> list[bridge.Channel]:
        return [bridge.Channel(n, min=-1, max=1) for n in names_of(self.env.action_space, "action")]

    def select(self, task: str) -> None:
        if task not in self.tasks:
            raise ValueError(f"{self.spec.name} has no task {task!r}: choose one of {', '.join(self.tasks)}")
        self.task = task

    def reset(self, seed: int) -> None:
        self._begin(seed)
        self._time = 0.0
        self.halt()

    def _begin(self, seed: int | None) -> None:
        answer = self.env.reset(seed=seed, options=self.reset_options())
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise ValueError(
                f"{self.spec.name}: reset returns no pair of observation and info; wrap it in a gymnasium.Env")
        self._obs, _ = answer
        self._reward, self._steps, self._ended = None, 0, 0  # _ended: steps since the end of the episode

    def reset_options(self) -> dict | None:
        """Returns the options of env.reset."""
        return None

    def act(self, action: tuple[float, ...]) -> None:
        self._command = self._middle + np.reshape(np.asarray(action, dtype=float), self._middle.shape) * self._half

    def halt(self) -> None:
        self.act((0.0,) * self._middle.size)

    def advance(self) -> None:
        self._time += self.spec.period
        self._steps += 1
        if self._ended:
            self._ended += 1
            self._reward = 0.0
        else:
            self._obs, reward, terminated, truncated, _ = self.env.step(self._command)
            self._reward, self._ended = float(reward), int(terminated or truncated)
        if self.free and (self.ended_long_ago() or self._steps >= self._limit):
            self._begin(None)
        if self._pictures:
            self._pictures.offer()

    def ended_long_ago(self) -> bool:
        """Whether the environment ended its episode a second ago."""
        return self._ended > self._pause

    def sense(self) -> tuple[list[float], float]:
        space = self.env.observation_space
        if isinstance(space, gymnasium.spaces.Box):  # without a rounding to the space's type
            return np.ravel(self._obs).tolist(), self._time
        return gymnasium.spaces.flatten(space, self._obs).tolist(), self._time

    def reward(self) -> float | None:
        return self._reward

    def frame(self) -> bytes:
        if not self._pictures:
            raise RuntimeError("this environment has no rgb_array pictures")
        picture = self._pictures.next()
        return _grey(picture) if self._ended else picture


def _grey(jpeg: bytes) -> bytes:
    out = io.BytesIO()
    Image.open(io.BytesIO(jpeg)).convert("L").save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def _pictures(env: gymnasium.Env) -> _Pictures | _OtherProcess:
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)  # of each gymnasium.envs.mujoco.MujocoEnv
    return _Pictures(env) if renderer is None else _OtherProcess(renderer)


class _OtherProcess:
    """Renders MuJoCo in another process. Without a GPU a picture takes longer than a step.

    renderer: a gymnasium.envs.mujoco.mujoco_rendering.MujocoRenderer, which gives model, data, camera and size.
    """

    def __init__(self, renderer: object) -> None:
        import mujoco_view  # only these environments need MuJoCo

        scale = min(1, _SIDE / max(renderer.width, renderer.height))
        size = round(renderer.width * scale), round(renderer.height * scale)
        self._view = mujoco_view.View(_without_edges(renderer.model), _camera(renderer), *size)
        self._data = renderer.data

    def offer(self) -> None:
        """Does nothing: a viewer does not wait for the simulation."""

    def next(self) -> bytes:
        """Returns the current state's picture, a JPEG."""
        return self._view.picture(self._data.qpos.copy())


def _without_edges(model: object) -> object:
    """Returns a copy of a mujoco.MjModel with floors as endless as they are for its physics, and with the same
    tiles."""
    model = copy.deepcopy(model)
    for floor in np.flatnonzero((model.geom_type == _PLANE) & (model.geom_size[:, :2] > 0).all(1)):
        material = model.geom_matid[floor]
        if material >= 0 and not model.mat_texuniform[material]:
            model.mat_texuniform[material] = 1  # tiles in 2 m, and not on the whole floor
            model.mat_texrepeat[material] /= model.geom_size[floor, :2]
        model.geom_size[floor, :2] = 0
    return model


def _camera(renderer: object) -> str | dict:
    """Returns the renderer's camera as a mujoco_view.View needs it; one that follows the robot, if none was chosen."""
    if renderer.camera_id != -1:
        return {"type": _FIXED, "fixedcamid": renderer.camera_id}
    fields = renderer.default_cam_config or {}
    if "trackbodyid" not in fields and _TRACK in (renderer.model.camera(i).name for i in range(renderer.model.ncam)):
        return _TRACK
    return {name: np.asarray(value).tolist() for name, value in fields.items()}


class _Pictures:
    """Renders in the thread of the simulation, because renderers belong to one thread, and only for a waiting
    viewer."""

    def __init__(self, env: gymnasium.Env) -> None:
        self._env, self._picture, self._error = env, None, None
        self._wanted, self._taken = threading.Event(), threading.Condition()

    def offer(self) -> None:
        """Renders the current state if a viewer waits."""
        if not self._wanted.is_set():
            return
        self._wanted.clear()
        picture, error = None, None
        try:
            picture = np.asarray(self._env.render())
        except Exception as e:  # noqa: BLE001  # a missing library of a renderer must not end the simulation
            error = f"the environment cannot render: {e}"
        with self._taken:
            self._picture, self._error = picture, error
            self._taken.notify_all()

    def next(self) -> bytes:
        """Returns the next state's picture, a JPEG."""
        with self._taken:
            self._wanted.set()
            if not self._taken.wait(_PATIENCE):
                raise RuntimeError("the simulation stands still")
            picture, error = self._picture, self._error
        if error:
            raise RuntimeError(error)
        out = io.BytesIO()
        Image.fromarray(picture).save(out, "JPEG", quality=_QUALITY)
        return out.getvalue()


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Serves a Gymnasium environment over optibfm's bridge.")
    parser.add_argument("env", metavar="ENV_ID", help="an id of gymnasium.make, or MODULE:CLASS")
    parser.add_argument("task", nargs="?", help="reward, the only one; may be left to the client")
    parser.add_argument("--kwargs", type=json.loads, default={}, metavar="JSON", help="arguments of the environment")
    parser.add_argument("--period", type=_positive, metavar="SECONDS",
                        help="of a step (default: the environment's dt or 1 / render_fps)")
    parser.add_argument("--describe", action="store_true", help="print the period in seconds as JSON, and exit")
    bridge.add_arguments(parser)
    return parser


def _robot(args: argparse.Namespace, **more: object) -> Simulator:
    env = make(args.env, **args.kwargs, **more)
    limit = getattr(gymnasium.registry.get(args.env), "max_episode_steps", None)
    robot = Simulator(env, args.env, args.period or period_of(env), limit)
    robot.select(args.task or "reward")
    return robot


def of_config(path: str | os.PathLike) -> Simulator:
    """Returns the environment that the configuration of a robot (YAML) names, without pictures."""
    import yaml  # the server does not need it

    try:
        with open(path) as file:
            command = yaml.safe_load(file)["robot"]["bridge"]["command"]
        here = next(i for i, word in enumerate(command) if os.path.basename(word) == os.path.basename(__file__))
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration) as e:
        raise ValueError(f"{path}: robot.bridge.command: no command of gymnasium_bridge.py: {e}") from e
    return _robot(_parser().parse_args(command[here + 1 :]), render_mode=None)


def main() -> None:
    parser = _parser()
    args = parser.parse_args()
    try:
        robot = _robot(args)
    except ValueError as e:
        parser.error(str(e))
    if args.describe:
        print(json.dumps({"period": robot.spec.period}))
        return
    bridge.run(robot, args)


if __name__ == "__main__":
    main()
