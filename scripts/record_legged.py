"""Records what the sensors of a simulated Go2 read, with the true velocity and height of its base, for the
estimator's test.

    pip install -r requirements.txt && pip install --no-deps -r requirements-go2.txt
    python3 record_legged.py ../hal/unitree/body/testdata/go2.npz
    python3 record_legged.py go2.npz --robots 16 --seconds 20

Each scene has other robots (go2_physics.py), whose seeds begin at --seed. models/go2 moves them; after a fall
the motors damp, as the driver makes them. Arrays: SCENE/readings [robots, ticks, 37], what
scripts/go2_bridge.py measures at 50 Hz, and SCENE/truth [robots, ticks, 4], the velocity, m/s, in the base's
frame, and the height, m.

- stand: pushed every 2 to 6 s; walk: the tasks that move, each for 2.5 s, pushed; slip: the same on ice;
- flight: thrown upwards every 3 s until it falls; fall: thrown over after 1 s, lies, and is pushed.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from fb import bundle, go2
from go2_bridge import DAMPING, MEASURED, PERIOD, STEPS, TASKS

MODEL = Path(__file__).resolve().parent.parent / "models" / "go2"
ICE = (0.2, 0.3)  # friction of the floor
SCENES = ("stand", "walk", "slip", "flight", "fall")
EACH = 2.5  # s, of a task
THROW = 3  # ticks of a force


def tasks(scene: str, robot: int) -> list[str]:
    """Returns what a robot does, each for EACH seconds, again and again."""
    if scene not in ("walk", "slip"):
        return ["stand"]
    names = [name for name in TASKS if name not in ("stand", "crouch")]
    return names[robot % len(names):] + names[:robot % len(names)]


def force(scene: str, tick: int, mass: float, rng: np.random.Generator) -> np.ndarray | None:
    """Returns the force and torque [6], N, N m, on the base that begin in a tick and last for THROW ticks."""
    angle, impulse = rng.uniform(-np.pi, np.pi), mass / (THROW * PERIOD)
    away = np.array([np.cos(angle), np.sin(angle)])
    if scene == "flight" and tick % round(3 / PERIOD) == round(1 / PERIOD):
        return np.array([*away * 0.4, rng.uniform(1.2, 2.0), 0, 0, 0]) * impulse
    if scene == "fall" and tick == round(1 / PERIOD):
        return np.array([*away * 2.0, 1.0, -away[1] * 0.4, away[0] * 0.4, 0]) * impulse
    return None


class Recording:
    """One robot in a scene."""

    def __init__(self, scene: str, robot: int, seed: int) -> None:
        self.scene, self.tasks, self.rng = scene, tasks(scene, robot), np.random.default_rng(seed)
        self.copies = go2.Copies(1, seed, push=0.0 if scene == "flight" else None)
        self.copies.begin(0, seed)
        self.robot = self.copies.robots[0]
        if scene == "slip":
            self.robot.model.geom_friction[self.robot.model.geom("floor").id, 0] = self.rng.uniform(*ICE)
        self.rows, self.down = [], False

    @torch.no_grad()
    def run(self, model, z: dict[str, torch.Tensor], ticks: int) -> np.ndarray:
        """Returns the rows [ticks, 41] of go2_bridge's channels."""
        body = self.robot.data.xfrc_applied[self.robot.model.body("base").id]
        mass = self.robot.model.body_subtreemass[self.robot.model.body("base").id]
        until = -1
        for tick in range(ticks):
            thrown = force(self.scene, tick, mass, self.rng)
            if thrown is not None and not self.down:
                body[:], until = thrown, tick + THROW
            elif tick == until:
                body[:] = 0
            self.copies.observe()
            self.rows.append(self.copies.readings[0, 0].copy())
            name = self.tasks[int(tick * PERIOD / EACH) % len(self.tasks)]
            action = model.actor(model.normalize(torch.as_tensor(self.copies.obs)), z[name][None]).numpy()
            self.move(action)
        return np.array(self.rows)

    def move(self, action: np.ndarray) -> None:
        self.down = self.down or self.copies.fallen[0] > 5
        if not self.down:
            self.copies.step(action)
            return
        self.robot.step(0.0, kd=DAMPING, steps=STEPS)
        self.copies.read(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Records a simulated Go2 for the test of the estimator.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--robots", type=int, default=1, help="of each scene (%(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first robot (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = bundle.read(MODEL)
    z = {name: torch.tensor(values) for name, values in json.loads((MODEL / "oracle.json").read_text())["z"].items()}
    arrays = {}
    for scene in SCENES:
        rows = np.array(
            [Recording(scene, i, args.seed + i).run(model, z, round(args.seconds / PERIOD)) for i in range(args.robots)]
        )
        arrays[f"{scene}/readings"] = rows[..., :len(MEASURED)].astype(np.float32)
        arrays[f"{scene}/truth"] = rows[..., len(MEASURED):].astype(np.float32)
    np.savez_compressed(args.out, **arrays)


if __name__ == "__main__":
    main()
