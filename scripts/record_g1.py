"""Records readings of a simulated G1, and its true velocity and height, for the estimator's test.

    pip install -r requirements-simulators.txt && pip install --no-deps mjlab==1.6.0
    python3 record_g1.py ../hal/unitree/body/testdata/g1.npz
    python3 record_g1.py g1.npz --robots 8 --seconds 8

The robot has no policy: its motors follow poses. A spring, which a real robot does not have, keeps
its pelvis upright.

Arrays, at 50 Hz:

- SCENE/readings [robots, ticks, 67]: positions (rad from the default pose) and velocities (rad/s)
  of the joints, gravity, gyro and accelerometer, with noise (go2_physics.NOISE);
- SCENE/truth [robots, ticks, 4]: velocity of the pelvis in its own frame, m/s, and its height, m.

Scenes:

- stand: pushed every 2 s;
- squat: the knees bend and stretch;
- step: the feet lift in turn, arms and waist move at random;
- fall: loses the spring and is pushed over after 1 s, then lies.
"""

import argparse
import tempfile
from pathlib import Path

import body_tables
import numpy as np
from g1_bridge import JOINTS, PERIOD, Simulator
from go2_physics import NOISE

NAMES = [j.name for j in JOINTS]
UPPER = np.array([name.startswith("waist") or name.split("_")[1] in ("shoulder", "elbow", "wrist") for name in NAMES])
LIFT = {"hip_pitch": -1.0, "knee": 2.0, "ankle_pitch": -1.0}  # of a leg that becomes shorter
LEGS = np.array([[LIFT.get(name.removeprefix(side), 0.0) for name in NAMES] for side in ("left_", "right_")])
UPRIGHT, TURNING = 800.0, 60.0  # N m/rad, N m s/rad, of the spring
PUSHES = {"stand": 0.3, "fall": 1.0}  # m/s
PUSH_TICKS, PUSH_EVERY = 5, 100
GRAVITY = 9.81


class Robot(Simulator):
    """A G1 in a scene."""

    def __init__(self, model: str, scene: str, seed: int) -> None:
        super().__init__("stand", model)
        self.scene, self.rng, self.motion = scene, np.random.default_rng([seed, 1]), np.zeros(len(NAMES))
        self.rate = self.rng.uniform(0.4, 0.9)  # Hz
        self.reset(seed)

    def move(self, tick: int) -> None:
        phase = 2 * np.pi * self.rate * tick * PERIOD
        if self.scene == "squat":
            self.motion = 0.3 * (1 - np.cos(phase)) * LEGS.sum(0)
        elif self.scene == "step":
            self.motion = 0.97 * self.motion * UPPER + UPPER * self.rng.normal(0, 0.1, len(NAMES))
            self.motion += 0.5 * np.maximum([np.sin(phase), -np.sin(phase)], 0) @ LEGS
        self._target = self._default + self.motion
        self._push(tick)
        self.advance()

    def _push(self, tick: int) -> None:
        data, pelvis = self._data, self._links[0]
        force, turned = data.xfrc_applied[pelvis], data.xmat[pelvis].reshape(3, 3)
        falls = self.scene == "fall" and tick >= PUSH_EVERY // 2
        force[3:] = 0.0 if falls else UPRIGHT * np.cross(turned[:, 2], [0, 0, 1])
        self._model.dof_damping[3:6] = 0.0 if falls else TURNING
        if tick % PUSH_EVERY == PUSH_EVERY // 2 and self.scene in PUSHES:
            angle, mass = self.rng.uniform(-np.pi, np.pi), self._model.body_subtreemass[pelvis]
            force[:2] = np.array([np.cos(angle), np.sin(angle)]) * PUSHES[self.scene] * mass / (PUSH_TICKS * PERIOD)
        elif tick % PUSH_EVERY == PUSH_EVERY // 2 + PUSH_TICKS:
            force[:2] = 0

    def read(self) -> np.ndarray:
        """Returns the readings with noise, and the truth [71]."""
        data, rng = self._data, self.rng
        turned = data.xmat[self._links[0]].reshape(3, 3)
        pull = turned.T @ (data.qacc[:3] + [0, 0, GRAVITY])
        exact = {"q": data.qpos[self._angles] - self._default, "dq": data.qvel[self._rates], "tilt": -turned[2],
                 "gyro": data.qvel[3:6], "accelerometer": pull}
        noisy = [x + rng.normal(0, NOISE[name], len(x)) for name, x in exact.items()]
        return np.concatenate([*noisy, turned.T @ data.qvel[:3], data.qpos[2:3]])


def main() -> None:
    parser = argparse.ArgumentParser(description="Records a simulated G1 for the test of the estimator.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--robots", type=int, default=1, help="of each scene (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first robot (%(default)s)")
    args = parser.parse_args()
    arrays, ticks = {}, round(args.seconds / PERIOD)
    with tempfile.TemporaryDirectory() as folder:
        scene_file = Path(folder) / "g1.xml"
        body_tables.write_g1_scene(scene_file)
        for scene in ("stand", "squat", "step", "fall"):
            rows = np.zeros((args.robots, ticks, 71), np.float32)
            for i in range(args.robots):
                robot = Robot(str(scene_file), scene, args.seed + i)
                for tick in range(ticks):
                    robot.move(tick)
                    rows[i, tick] = robot.read()
            arrays[f"{scene}/readings"], arrays[f"{scene}/truth"] = rows[..., :67], rows[..., 67:]
            print(scene, "heights at the end", rows[:, -1, -1].round(2), "fastest",
                  np.abs(rows[..., 67:70]).max().round(2))
    np.savez_compressed(args.out, **arrays)


if __name__ == "__main__":
    main()
