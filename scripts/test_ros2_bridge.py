"""Tests of ros2_bridge.py: python -m unittest discover scripts.

ROS 2 cannot be installed with pip: rclpy and the messages are fakes here, with the
names and shapes that ROS 2's documentation gives. On a robot, try it with
`ros2 topic pub` and `ros2 topic echo` before anything can move.
"""

import contextlib
import io
import json
import math
import os
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent


def _vector():
    return types.SimpleNamespace(x=0.0, y=0.0, z=0.0)


class Twist:
    def __init__(self):
        self.linear, self.angular = _vector(), _vector()


class TwistStamped:
    def __init__(self):
        self.header, self.twist = types.SimpleNamespace(stamp=None, frame_id=""), Twist()


class Float64MultiArray:
    def __init__(self):
        self.data = []


class JointState:
    def __init__(self, name=(), position=(), velocity=(), effort=()):
        self.name, self.position, self.velocity, self.effort = name, position, velocity, effort


class Imu:
    def __init__(self):
        self.orientation = types.SimpleNamespace(w=1.0, x=0.0, y=0.0, z=0.0)
        self.angular_velocity, self.linear_acceleration = _vector(), _vector()


class Odometry:
    def __init__(self):
        pose = types.SimpleNamespace(position=_vector(), orientation=types.SimpleNamespace(w=1.0, x=0.0, y=0.0, z=0.0))
        self.pose = types.SimpleNamespace(pose=pose)
        self.twist = types.SimpleNamespace(twist=Twist())


class Node:
    """Keeps what is created, so that a test can be the other side."""

    def __init__(self):
        self.callbacks, self.types, self.published, self.timers = {}, {}, [], []
        self.matched = True  # the QoS of the subscribers

    def create_subscription(self, kind, topic, callback, qos):
        self.types[topic], self.callbacks[topic] = kind, callback

    def create_publisher(self, kind, topic, depth):
        self.command = kind, topic
        own = f"{'std_msgs' if kind is Float64MultiArray else 'geometry_msgs'}/msg/{kind.__name__}"
        self.subscribers = [own]  # what they take
        return types.SimpleNamespace(
            publish=self.published.append, topic_name=topic,
            get_subscription_count=lambda: self.subscribers.count(own) if self.matched else 0)

    def get_subscriptions_info_by_topic(self, topic):
        assert topic == self.command[1]
        return [types.SimpleNamespace(topic_type=t) for t in self.subscribers]

    def get_clock(self):
        return types.SimpleNamespace(now=lambda: types.SimpleNamespace(to_msg=lambda: "ROS's time"))

    def create_timer(self, period, callback):
        self.timers.append((period, callback))

    def destroy_node(self):
        pass


def install():
    """Puts the fakes in the place of ROS 2's packages."""

    class Executor:
        """Calls the timers; the topics stay silent but for what the file brings."""

        def add_node(self, node):
            self.node, self.on = node, True

        def spin(self):
            while self.on:
                if os.environ.get("FAKE_ODOMETRY") == "1":
                    self.node.callbacks["/odom"](Odometry())
                for _, callback in self.node.timers:
                    callback()
                out = os.environ.get("FAKE_PUBLISHED")
                while out and self.node.published:
                    message = self.node.published.pop(0)
                    with open(out, "a", encoding="utf-8") as f:
                        print(message.linear.x, message.angular.z, file=f)
                time.sleep(0.005)

        def shutdown(self):
            self.on = False
            time.sleep(0.02)

    def module(name, **contents):
        m = types.ModuleType(name)
        m.__dict__.update(contents)
        sys.modules[name] = m

    module("rclpy", init=lambda **_: None, create_node=lambda _: Node(), try_shutdown=lambda: None)
    module("rclpy.executors", SingleThreadedExecutor=Executor,
           ExternalShutdownException=type("ExternalShutdownException", (Exception, ), {}))
    module("rclpy.qos", qos_profile_sensor_data=object())
    module("rclpy.signals", SignalHandlerOptions=types.SimpleNamespace(NO=0))
    for package in ("geometry_msgs", "nav_msgs", "sensor_msgs", "std_msgs"):
        module(package)
    module("geometry_msgs.msg", Twist=Twist, TwistStamped=TwistStamped)
    module("nav_msgs.msg", Odometry=Odometry)
    module("sensor_msgs.msg", Imu=Imu, JointState=JointState)
    module("std_msgs.msg", Float64MultiArray=Float64MultiArray)


install()
sys.path.insert(0, str(SCRIPTS))
import optibfm_bridge as bridge
import ros2_bridge


def settings(**changes):
    return {
        "name": "rover", "period": 0.05, "stale": 0.2,
        "obs": [
            {"name": "x", "from": "odometry.x", "scale": 0.5, "offset": 1},
            {"name": "speed", "from": "odometry.speed", "unit": "m/s"},
            {"name": "yaw", "from": "imu.yaw", "unit": "rad"},
            {"name": "roll", "from": "imu.roll", "unit": "rad"},
            {"name": "rate", "from": "imu.gyro_z", "unit": "rad/s"},
            {"name": "knee", "from": "joints.velocity.left.knee", "unit": "rad/s"}],
        "command": {"type": "twist", "topic": "/base/cmd_vel", "deadman": 0.3},
        "action": [
            {"name": "forward", "to": "linear_x", "scale": 0.75},
            {"name": "turn", "to": "angular_z", "scale": 6, "failsafe": 0.5}],
        **changes,
    }


class TheBridge(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.node = Node()
        self.robot = ros2_bridge.Ros2Robot(settings(), self.node, clock=lambda: self.now)

    def hear(self):
        odometry, imu = Odometry(), Imu()
        odometry.pose.pose.position.x, odometry.twist.twist.linear.x = 3.0, 0.25
        imu.orientation.w, imu.orientation.z = 2 * math.cos(0.6), 2 * math.sin(0.6)  # any length
        imu.angular_velocity.z = -0.5
        self.node.callbacks["/odom"](odometry)
        self.now += 0.01
        self.node.callbacks["/imu/data"](imu)
        self.node.callbacks["/joint_states"](JointState(["hip", "left.knee"], [1, 2], [3.0, 4.0]))

    def test_fields_fill_the_observation_in_its_order_with_the_oldest_time(self):
        self.hear()
        values, at = self.robot.sense()
        for got, want in zip(values, [2.5, 0.25, 1.2, 0, -0.5, 4]):
            self.assertAlmostEqual(got, want)
        self.assertEqual(at, 100.0)
        self.assertEqual([c.unit for c in self.robot.spec.obs], ["", "m/s", "rad", "rad", "rad/s", "rad/s"])
        self.assertEqual(self.node.types, {"/odom": Odometry, "/imu/data": Imu, "/joint_states": JointState})

    def test_a_topic_that_is_missing_or_silent_is_an_error_and_nothing_is_armed(self):
        with self.assertRaisesRegex(RuntimeError, "no message of odometry"):
            self.robot.sense()
        with self.assertRaises(RuntimeError):
            self.robot.arm()
        self.hear()
        self.robot.arm()
        self.now += 0.21
        with self.assertRaisesRegex(RuntimeError, "is 0.2[12]0 s old"):
            self.robot.sense()

    def test_a_joint_that_is_not_there_and_an_orientation_that_is_none_are_named(self):
        self.hear()
        self.node.callbacks["/joint_states"](JointState(["hip"], [1], [2]))
        with self.assertRaisesRegex(ValueError, "no joint 'left.knee': they have hip"):
            self.robot.sense()
        self.hear()
        self.node.callbacks["/joint_states"](JointState(["left.knee"], [1], []))
        with self.assertRaisesRegex(ValueError, "no velocity of 'left.knee'"):
            self.robot.sense()
        self.hear()
        imu = Imu()
        imu.orientation.w = 0.0
        self.node.callbacks["/imu/data"](imu)
        with self.assertRaisesRegex(ValueError, "not a quaternion"):
            self.robot.sense()

    def test_angles_are_those_of_rotations_about_each_axis(self):
        for axis, name in zip("xyz", ("roll", "pitch", "yaw")):
            for angle in (-1.5, -0.3, 0, 0.7, 1.5):
                q = types.SimpleNamespace(w=math.cos(angle / 2), x=0.0, y=0.0, z=0.0)
                setattr(q, axis, math.sin(angle / 2))
                for other in ("roll", "pitch", "yaw"):
                    self.assertAlmostEqual(ros2_bridge._ANGLES[other](q), angle if other == name else 0)

    def test_commands_are_scaled_and_the_rest_of_a_twist_is_zero(self):
        self.robot.act([0.5, -1])
        twist = self.node.published[-1]
        self.assertEqual((twist.linear.x, twist.linear.y, twist.angular.z), (0.375, 0, -6))
        self.assertEqual(self.node.command, (Twist, "/base/cmd_vel"))

    def test_a_stamped_twist_has_the_time_of_ros_and_a_frame(self):
        for command, frame in [({}, "base_link"), ({"frame": "base"}, "base")]:
            node = Node()
            robot = ros2_bridge.Ros2Robot(
                settings(command={"type": "twist_stamped", "topic": "/cmd", "deadman": 1, **command}), node)
            robot.act([0.5, -1])
            message = node.published[-1]
            self.assertEqual((message.twist.linear.x, message.twist.angular.z), (0.375, -6))
            self.assertEqual((message.header.stamp, message.header.frame_id), ("ROS's time", frame))
            self.assertEqual(node.command, (TwistStamped, "/cmd"))

    def test_arming_needs_a_subscriber_that_takes_the_command(self):
        twist, stamped, path = "geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped", "nav_msgs/msg/Path"
        for kind, subscribers, matched, says in [
            ("twist", [], True, "no node subscribes to /cmd_vel: start the robot's controller"),
            ("twist", [stamped], True, f"takes {stamped}, not {twist}: set command.type to twist_stamped"),
            ("twist_stamped", [path, twist], True, f"takes {twist}, {path}, not {stamped}: set command.type to twist"),
            ("twist_stamped", [path], True, f"takes {path}, not {stamped}: correct command.topic"),
            ("twist", [twist, stamped], False, "the QoS of the node that subscribes to /cmd_vel does not match"),
        ]:
            self.node = Node()
            self.robot = ros2_bridge.Ros2Robot(settings(command={"type": kind, "deadman": 1}), self.node)
            self.hear()
            self.robot.arm()
            self.node.subscribers, self.node.matched = subscribers, matched
            with self.subTest(says), self.assertRaisesRegex(RuntimeError, says):
                self.robot.arm()

    def test_a_robot_whose_subscriber_leaves_is_halted_until_it_is_armed(self):
        self.hear()
        self.robot.arm()
        self.robot.act([1, 1])
        subscribers, self.node.subscribers = self.node.subscribers, []
        self.robot.watch()
        self.node.subscribers = subscribers
        with self.assertRaisesRegex(bridge.Halted, "no node subscribes to /base/cmd_vel any more"):
            self.robot.act([1, 1])
        self.assertEqual([twist.linear.x for twist in self.node.published], [0.75, 0])
        self.hear()
        self.robot.arm()
        self.robot.act([1, 1])
        self.assertEqual(self.node.published[-1].linear.x, 0.75)

    def test_an_array_is_in_the_order_of_its_indices(self):
        robot = ros2_bridge.Ros2Robot(settings(
            command={"type": "array", "deadman": 1},
            action=[{"name": "b", "to": 1, "scale": 10}, {"name": "a", "to": 0, "offset": 1}]), self.node)
        robot.act([0.5, 0.25])
        self.assertEqual(self.node.published[-1].data, [1.25, 5])
        self.assertEqual(self.node.command, (Float64MultiArray, "/commands"))

    def test_a_position_is_where_the_state_of_its_joint_is(self):
        node = Node()
        robot = ros2_bridge.Ros2Robot(settings(
            obs=[{"name": "angle", "from": "joints.position.left.knee", "scale": 0.5, "offset": 3},
                 {"name": "hip", "from": "joints.position.hip"}],
            command={"type": "array", "deadman": 1},
            action=[{"name": "knee", "to": 0, "scale": -2, "offset": 0.25, "measured": "angle"},
                    {"name": "hip", "to": 1, "unit": "rad", "measured": "hip"}]), node)
        node.callbacks["/joint_states"](JointState(["hip", "left.knee"], [0.75, -1.5]))
        observed = dict(zip(("angle", "hip"), robot.sense()[0]))
        robot.act([c.measured_scale * observed[c.measured] + c.measured_offset for c in robot.spec.action])
        self.assertEqual(node.published[-1].data, [-1.5, 0.75])
        self.assertEqual(robot.spec.unmeasured(), [])

    def test_the_deadman_publishes_the_failsafe_once_and_refuses_commands_until_armed(self):
        self.hear()
        self.robot.arm()
        self.robot.act([1, 1])
        self.now += 0.29
        self.robot.watch()
        self.assertEqual(len(self.node.published), 1)
        self.now += 0.02
        self.robot.watch()
        self.robot.watch()
        self.assertEqual(len(self.node.published), 2)
        twist = self.node.published[-1]
        self.assertEqual((twist.linear.x, twist.angular.z), (0, 3))
        with self.assertRaises(bridge.Halted):
            self.robot.act([1, 1])
        self.assertEqual(len(self.node.published), 2)
        self.hear()
        self.robot.arm()
        self.robot.act([1, 1])
        self.assertEqual(len(self.node.published), 3)

    def test_halt_publishes_the_failsafe_and_ends_the_watch(self):
        self.robot.act([1, 1])
        self.robot.halt()
        self.now += 10
        self.robot.watch()
        self.assertEqual(len(self.node.published), 2)
        self.assertEqual(self.node.published[-1].linear.x, 0)

    def test_commands_are_refused_without_calls_of_the_deadmans_timer(self):
        self.hear()
        self.robot.arm()
        self.robot.act([1, 1])
        self.now += 0.31
        with self.assertRaisesRegex(bridge.Halted, "has not called the deadman's timer"):
            self.robot.act([1, 1])
        self.assertEqual([twist.linear.x for twist in self.node.published], [0.75, 0])
        self.robot.watch()
        with self.assertRaisesRegex(bridge.Halted, "then arm again"):
            self.robot.act([1, 1])
        self.hear()
        self.robot.arm()
        self.robot.act([1, 1])
        self.assertEqual(self.node.published[-1].linear.x, 0.75)

    def test_an_executor_that_fails_says_so(self):
        class Failing:
            def spin(self):
                raise RuntimeError("no middleware")

        with contextlib.redirect_stderr(io.StringIO()) as said:
            ros2_bridge._spin(Failing())
        self.assertIn("executor has ended: RuntimeError('no middleware')", said.getvalue())

    def test_settings_that_are_wrong_are_refused_with_the_key(self):
        for changes, says in [
            ({"nam": "x"}, "nam: no such key"),
            ({"obs": [{"name": "x", "from": "odometry.speeed"}]}, r"obs\[0\].from: not understood"),
            ({"obs": [{"name": "x", "from": "lidar.x"}]}, r"obs\[0\].from: not understood"),
            ({"obs": [{"name": "x", "from": "joints.position."}]}, r"obs\[0\].from: not understood"),
            ({"obs": [{"name": "x", "from": "imu.yaw", "scale": "2"}]}, r"obs\[0\].scale: not a finite number"),
            ({"action": [{"name": "a", "to": "linear_w"}]}, "not outputs of type twist"),
            ({"action": [{"name": "a", "to": "linear_x"}, {"name": "b", "to": "linear_x"}]}, "same output"),
            ({"action": [{"name": "a", "to": "linear_x", "min": 1, "max": 1}]}, "not min <= failsafe <= max"),
            ({"command": {"type": "array", "deadman": 1}}, "not outputs of type array"),
            ({"command": {"type": "string", "deadman": 1}}, "choose twist, twist_stamped, array"),
            ({"command": {"type": ["twist"], "deadman": 1}}, "choose twist, twist_stamped, array"),
            ({"command": {"type": "twist", "deadman": 1,
                          "frame": "base"}}, "command.frame: a command of type twist has no frame"),
            ({"command": {"type": "twist_stamped", "deadman": 1, "frame": 3}}, "command.frame: not a text"),
            ({"command": {"type": "twist"}}, "command.deadman: not positive"),
            ({"topics": {"lidar": "/scan"}}, "lidar: no such key"),
            ({"topics": ["/odom"]}, "topics: not an object"),
            ({"topics": {"odometry": 3}}, "topics.odometry: not a text"),
            ({"obs": {"name": "x"}}, "settings.obs: not a list"),
            ({"obs": ["odometry.x"]}, r"obs\[0\]: not an object"),
            ({"obs": [{"name": "x"}]}, r"obs\[0\].from: missing"),
            ({"obs": [{"name": 1, "from": "odometry.x"}]}, r"obs\[0\].name: not a text"),
            ({"action": [{"name": "a"}]}, r"action\[0\].to: neither an output nor an index"),
            ({"action": [{"name": "a", "to": "linear_x", "max_rate": -1}]}, "bad max_rate"),
            ({"action": [{"name": "a", "to": "linear_x",
                          "measured": "y"}]}, r"action\[0\].measured: not an observation of joints.pos"),
            ({"action": [{"name": "a", "to": "linear_x",
                          "measured": "knee"}]}, r"measured: not an observation of joints.position"),
            ({"action": [{"name": "a", "to": "linear_x", "measured": 3}]}, r"action\[0\].measured: not a text"),
            ({
                "obs": [{"name": "k", "from": "joints.position.k"}],
                "action": [{"name": "a", "to": "linear_x", "scale": 0, "measured": "k"}]
            }, r"measured: a scale is 0 \(1.0, 0.0\)"),
            ({"command": None}, "settings.command: not an object"),
            ({"period": "0.05"}, "settings.period: not a finite number"),
            ({"period": 0}, "settings.period, settings.stale: not positive"),
            ({"stale": -1}, "not positive .0.05, -1"),
            ({"name": None}, "settings.name: not a text"),
        ]:
            with self.subTest(says), self.assertRaisesRegex(ValueError, says):
                ros2_bridge.Ros2Robot(settings(**changes), Node())
        with self.assertRaisesRegex(ValueError, "settings: not an object"):
            ros2_bridge.Ros2Robot([], Node())


class TheServer(unittest.TestCase):
    """The script in a separate process, with the fakes, over the socket."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.published = self.folder / "published"
        file = self.folder / "rover.json"
        file.write_text(json.dumps(settings(obs=[{"name": "x", "from": "odometry.x"}])))
        program = textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(SCRIPTS)!r})
            import test_ros2_bridge, ros2_bridge
            ros2_bridge.main()
        """)
        address = self.folder / "socket"
        self.server = subprocess.Popen(
            [sys.executable, "-c", program, str(file), "--listen", f"unix:{address}"], stderr=subprocess.DEVNULL,
            env={**os.environ, "FAKE_ODOMETRY": "1", "FAKE_PUBLISHED": str(self.published)})
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.client = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.client.close)
        self.client.settimeout(10)
        for _ in range(500):
            try:
                self.client.connect(str(address))
                break
            except OSError:
                time.sleep(0.02)
        self.seq = 0

    def send(self, kind, payload=b""):
        self.client.sendall(struct.pack("<IBBHI", len(payload), kind, 0, 0, self.seq) + payload)
        self.seq += 1

    def receive(self):
        def exactly(n):
            data = b""
            while len(data) < n:
                more = self.client.recv(n - len(data))
                self.assertTrue(more, "the server has closed the connection")
                data += more
            return data

        length, kind, *_ = struct.unpack("<IBBHI", exactly(12))
        return kind, exactly(length)

    def hello(self, deadman_ms):
        self.send(bridge.HELLO, bridge.MAGIC + struct.pack("<HBBIH", 1, bridge.FREE, 0, deadman_ms, 0))
        self.assertEqual(self.receive()[0], bridge.WELCOME)
        self.send(bridge.ARM)
        self.assertEqual(self.receive()[0], bridge.OK)

    def last(self, want):
        """Waits until the newest command is the wanted one."""
        for _ in range(400):
            lines = self.published.read_text().splitlines() if self.published.exists() else []
            if lines and lines[-1] == want:
                return
            time.sleep(0.01)
        self.fail(f"want {want!r}, published {lines}")

    def test_a_client_senses_acts_and_is_halted_when_it_falls_silent(self):
        self.hello(0)  # the bridge's own deadman is off: the script's has to do it
        self.send(bridge.SENSE)
        kind, state = self.receive()
        self.assertEqual((kind, len(state)), (bridge.STATE, 8 + 8 + 8 + 4))
        self.assertLess(struct.unpack_from("<q", state, 8)[0], 200_000_000)
        self.send(bridge.ACT, struct.pack("<2f", 1, 0))
        self.last("0.75 0.0")
        self.last("0.0 3.0")
        self.send(bridge.ACT, struct.pack("<2f", 1, 0))
        kind, refusal = self.receive()
        self.assertEqual((kind, refusal[0]), (bridge.ERROR, bridge.HALTED))

    def test_a_client_that_leaves_leaves_a_robot_that_is_halted(self):
        self.hello(2000)
        self.send(bridge.ACT, struct.pack("<2f", -1, 0.5))
        self.last("-0.75 3.0")
        self.client.close()
        self.last("0.0 3.0")


if __name__ == "__main__":
    unittest.main()
