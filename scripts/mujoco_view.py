"""Renders pictures of a MuJoCo simulation in another process, so that rendering does not delay the simulation.

    view = mujoco_view.View(model, "side")
    jpeg = view.picture(data.qpos)      # bytes of a JPEG

The process starts with the first picture. It receives positions and returns pictures; nothing else is shared. It
renders with EGL, which needs no display and, with Mesa, no GPU: sudo apt install libegl1 libgl1-mesa-dri.
"""

import io
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import threading

import mujoco
import numpy as np
from PIL import Image

QUALITY = 80  # of the JPEG
_MANY_FACES = 50_000  # of meshes, above which shadows and reflections take too long without a GPU
_SIZE = struct.Struct("<I")


class View:
    """Pictures of a model. Several threads may use it.

    model: mujoco.MjModel. camera: the name of one of its cameras, or the fields of a mujoco.MjvCamera; with
    trackbodyid it follows that body, with beside: True its azimuth is relative to the heading of the free joint at the
    start of qpos. width, height: pixels.
    """

    def __init__(self, model, camera: str | dict, width: int = 320, height: int = 240) -> None:
        self._model, self._camera, self._size = model, camera, (width, height)
        self._lock = threading.Lock()
        self._renderer = None

    def picture(self, qpos) -> bytes:
        """Returns a JPEG of the positions qpos [nq]. Raises RuntimeError if the renderer failed."""
        with self._lock:
            if self._renderer is None:
                self._start()
            try:
                self._renderer.stdin.write(qpos.astype("<f8").tobytes())
                self._renderer.stdin.flush()
                return self._read(_SIZE.unpack(self._read(_SIZE.size))[0])
            except OSError as e:
                raise RuntimeError(self._failure()) from e

    def _start(self):
        folder = tempfile.mkdtemp(prefix="optibfm-view-")
        path = os.path.join(folder, "model.mjb")  # the renderer removes it
        mujoco.mj_saveModel(self._model, path)
        arguments = [path, json.dumps(self._camera), *map(str, self._size)]
        environment = {**os.environ, "MUJOCO_GL": "egl"}
        self._renderer = subprocess.Popen([sys.executable, __file__, *arguments], env=environment,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _read(self, size):
        data = self._renderer.stdout.read(size)
        if len(data) < size:
            raise BrokenPipeError
        return data

    def _failure(self):
        """Ends the renderer, and returns the last line of its errors."""
        renderer, self._renderer = self._renderer, None
        renderer.kill()
        lines = renderer.communicate()[1].decode(errors="replace").strip().splitlines()
        return f"the renderer failed: {lines[-1] if lines else 'no message'}; sudo apt install libegl1 libgl1-mesa-dri"


def heading(orientation) -> float:
    """Returns the heading of a quaternion w, x, y, z in degrees: that of the x axis, counter-clockwise from above."""
    w, x, y, z = orientation
    return math.degrees(math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def _main(path, camera, width, height):
    """Renders positions from standard input to standard output until its end."""
    model = mujoco.MjModel.from_binary_path(path)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    model.vis.quality.offsamples, model.vis.quality.shadowsize = 0, 512  # a third of the time without a GPU
    data = mujoco.MjData(model)
    camera, beside = json.loads(camera), False
    if isinstance(camera, dict):
        fields, camera = camera, mujoco.MjvCamera()
        beside = fields.pop("beside", False)
        mujoco.mjv_defaultFreeCamera(model, camera)
        for name, value in fields.items():
            setattr(camera, name, value)
        if "trackbodyid" in fields:
            camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
    renderer = mujoco.Renderer(model, int(height), int(width))
    if model.nmeshface > _MANY_FACES:
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = renderer.scene.flags[
            mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
    while len(raw := sys.stdin.buffer.read(8 * model.nq)) == 8 * model.nq:
        data.qpos[:] = np.frombuffer(raw, "<f8")
        mujoco.mj_forward(model, data)
        if beside:
            camera.azimuth = fields["azimuth"] + heading(data.qpos[3:7])
        renderer.update_scene(data, camera)
        out = io.BytesIO()
        Image.fromarray(renderer.render()).save(out, "JPEG", quality=QUALITY)
        sys.stdout.buffer.write(_SIZE.pack(out.tell()) + out.getvalue())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
