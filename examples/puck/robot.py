"""The driver of a robot: optibfm starts it and connects to it (the package optibfm_bridge describes the methods).

It holds a toy, a puck on a table, and runs unchanged. For your robot: list its channels, fill in sense, act and halt,
and delete what is below "Simulators only".
"""

import io
import random

import optibfm_bridge as bridge

HALF = 0.5  # m, half the side of the table
MASS, DRAG, THRUST = 0.5, 1.0, 0.5  # kg, N s/m, N: top speed 0.5 m/s, reached in about a second


class Robot:
    """A puck with two thrusters on a square table with walls."""

    # Name what measures an action that is a position (rad, deg, m, mm): motion begins there.
    # bridge.Channel("knee", "rad", min=-1, max=1, max_rate=2, measured="knee_angle")
    spec = bridge.Spec(
        name="puck", period=0.05,  # s; loop.period_ms of robot.yaml
        obs=[bridge.Channel("x", "m"), bridge.Channel("y", "m"),
             bridge.Channel("vx", "m/s"), bridge.Channel("vy", "m/s")],
        action=[bridge.Channel("thrust_x", "N", min=-THRUST, max=THRUST),
                bridge.Channel("thrust_y", "N", min=-THRUST, max=THRUST)])

    def __init__(self) -> None:
        self.place, self.speed, self.thrust = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        self.at = 0.0  # s, simulated

    def sense(self) -> tuple[list[float], float]:
        """Returns the observation and the time of its sample: of a real robot, time.monotonic() in seconds."""
        return [*self.place, *self.speed], self.at

    def act(self, action: tuple[float, ...]) -> None:
        """Sends a command to the actuators. The bridge has checked the limits."""
        self.thrust = list(action)

    def halt(self) -> None:
        """Stops the actuators. The bridge calls it at the start, at every end and when optibfm is silent."""
        self.thrust = [0.0, 0.0]

    # Simulators only.

    def advance(self) -> None:
        """Simulates one period."""
        for i in range(2):
            force = self.thrust[i] - DRAG * self.speed[i]
            self.speed[i] += force / MASS * self.spec.period
            moved = self.place[i] + self.speed[i] * self.spec.period
            self.place[i] = min(max(moved, -HALF), HALF)
            if self.place[i] != moved:  # the wall stops it
                self.speed[i] = 0.0
        self.at += self.spec.period

    def reset(self, seed: int) -> None:
        """Starts an episode anywhere on the table."""
        draw = random.Random(seed)
        self.place = [draw.uniform(-HALF, HALF) for _ in range(2)]
        self.speed = [draw.uniform(-0.5, 0.5) for _ in range(2)]
        self.at = 0.0

    def reward(self) -> float:
        """Returns what the simulated operator of robot.yaml wants: 1 in the upper right corner, 0 in the lower left."""
        return (sum(self.place) / HALF + 2) / 4

    def frame(self) -> bytes:
        """Returns a picture, JPEG. For a real robot use a camera instead: operator.view in robot.yaml."""
        try:
            from PIL import Image, ImageDraw
        except ImportError as e:
            raise RuntimeError(f"{e}; install it: python3 -m pip install pillow") from e
        x, y = 160 + 260 * self.place[0], 160 - 260 * self.place[1]  # pixels
        image = Image.new("RGB", (320, 320), "#20242c")
        draw = ImageDraw.Draw(image)
        draw.rectangle((15, 15, 305, 305), outline="#8a93a3", width=3)
        draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill="#f2b134")
        draw.line((x, y, x - 60 * self.thrust[0], y + 60 * self.thrust[1]), fill="#e4572e", width=4)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=85)
        return buffer.getvalue()


if __name__ == "__main__":
    bridge.main(Robot())
