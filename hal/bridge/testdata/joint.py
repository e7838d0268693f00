"""A robot for the tests: a joint at 2.25 rad, whose position an observation in degrees measures."""

import math
import time

import optibfm_bridge as bridge


class Joint:
    spec = bridge.Spec(
        name="joint", period=0.01,
        obs=[bridge.Channel("speed", "rad/s"), bridge.Channel("angle", "deg")],
        action=[bridge.Channel("torque", "N m", min=-1, max=1),
                bridge.Channel("joint", "rad", min=-3, max=3, max_rate=0.2,
                               measured="angle", measured_scale=math.pi / 180, measured_offset=0.25)])

    def sense(self):
        return [0.0, math.degrees(2.0)], time.monotonic()

    def act(self, action):
        pass

    def halt(self):
        pass


bridge.main(Joint())
