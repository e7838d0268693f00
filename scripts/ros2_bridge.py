"""Serves a robot of ROS 2 over optibfm's bridge, in free mode.

    python3 ros2_bridge.py myrobot.json --listen unix:/run/myrobot.sock

It subscribes to sensor_msgs/JointState, sensor_msgs/Imu and nav_msgs/Odometry and
publishes geometry_msgs/Twist, geometry_msgs/TwistStamped or
std_msgs/Float64MultiArray. Which field fills which element is a JSON file such as
this one:

    {
      "name": "rover", "period": 0.05,
      "topics": {"joints": "/joint_states", "imu": "/imu/data", "odometry": "/odom"},
      "stale": 0.2,
      "obs": [
        {"name": "x", "from": "odometry.x", "scale": 0.5, "offset": 0, "unit": ""},
        {"name": "yaw_rate", "from": "imu.gyro_z", "unit": "rad/s"},
        {"name": "knee", "from": "joints.position.left_knee", "unit": "rad"}],
      "command": {"type": "twist", "topic": "/cmd_vel", "deadman": 0.2},
      "action": [
        {"name": "forward", "to": "linear_x", "scale": 0.75, "min": -1, "max": 1},
        {"name": "turn", "to": "angular_z", "scale": 6, "min": -1, "max": 1, "failsafe": 0}]
    }

Most base controllers since ROS 2 Jazzy want "type": "twist_stamped", with the frame
"frame" (default: base_link). Arming is refused unless a node subscribes to the
command's topic with its type and a compatible QoS. `ros2 topic info -v /cmd_vel`
shows the subscribers. If the last one leaves a moving robot, the robot halts.

With "type": "array" an action may be a position of a joint. Name the observation of
joints.position that measures it, because motion begins there. The command that is published
must have the same unit and zero as the joint state:

    {"name": "knee", "to": 0, "unit": "rad", "min": -1.5, "max": 0, "max_rate": 1, "measured": "knee"}

Times are in seconds. With a newest message that is older than `stale` sensing fails
(default: three periods). Units, scale (1), offset (0), min (-1), max (1), max_rate (0:
none), failsafe (0), measured and the topics may be left out.

    joints.{position,velocity,effort}.JOINT
    imu.{gyro,accel}_{x,y,z}, imu.{roll,pitch,yaw,yaw_cos,yaw_sin}
    odometry.{x,y,z,roll,pitch,yaw,yaw_cos,yaw_sin,speed,side_speed,yaw_rate}
    Twist, TwistStamped: {linear,angular}_{x,y,z}; what no action drives stays 0
    with "type": "array": "to" is an index, from 0 without a gap

A number is scale times the field, plus offset; ages are those of the messages'
arrival here, so that the clocks of other computers need not agree.

Safety. A Twist has no deadman, stamped or not: its receiver should stop when none
comes (diff_drive_controller: cmd_vel_timeout). Here, the failsafe command is
published at the start, by halt, when the client goes silent or leaves, and, from a
timer of ROS, when no command has come for command.deadman seconds. The last one is
beside the bridge's own deadman (robot.bridge.deadman_ms), and runs in a thread of its
own; commands are then refused until the robot is armed again, and wherever ROS does not
call that timer. Until it is armed, and after it was halted, nothing else is published.

Needs rclpy, of a sourced ROS 2; tested without it, see test_ros2_bridge.py.
"""

import argparse
import json
import math
import re
import sys
import threading
import time

import install_hint
import optibfm_bridge as bridge

try:
    import rclpy
    from geometry_msgs.msg import Twist, TwistStamped
    from nav_msgs.msg import Odometry
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.qos import qos_profile_sensor_data
    from rclpy.signals import SignalHandlerOptions
    from sensor_msgs.msg import Imu, JointState
    from std_msgs.msg import Float64MultiArray
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e, "set up ROS 2 first: source /opt/ros/$ROS_DISTRO/setup.bash")

_TOPICS = {"joints": "/joint_states", "imu": "/imu/data", "odometry": "/odom"}
# Per type of command: the message, its name in ROS's graph and the default topic.
_COMMANDS = {
    "twist": (Twist, "geometry_msgs/msg/Twist", "/cmd_vel"),
    "twist_stamped": (TwistStamped, "geometry_msgs/msg/TwistStamped", "/cmd_vel"),
    "array": (Float64MultiArray, "std_msgs/msg/Float64MultiArray", "/commands"),
}
_TYPES = {"joints": JointState, "imu": Imu, "odometry": Odometry}
_TWIST = re.compile(r"(linear|angular)_([xyz])")
_KEYS = {"name", "period", "topics", "stale", "obs", "command", "action"}
_OBS_KEYS = {"name", "from", "unit", "scale", "offset"}
_ACTION_KEYS = {"name", "to", "unit", "scale", "offset", "min", "max", "max_rate", "failsafe", "measured"}
_COMMAND_KEYS = {"type", "topic", "deadman", "frame"}


def _angles(q):
    """Roll, pitch and yaw of a quaternion of any length but 0, in rad."""
    w, x, y, z = q.w, q.x, q.y, q.z
    n = w * w + x * x + y * y + z * z
    if not n > 0 or not math.isfinite(n):
        raise ValueError("the orientation is not a quaternion: does the driver fill it?")
    roll = math.atan2(2 * (w * x + y * z), w * w - x * x - y * y + z * z)
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x) / n)))
    yaw = math.atan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z)
    return roll, pitch, yaw


_ANGLES = {
    "roll": lambda q: _angles(q)[0],
    "pitch": lambda q: _angles(q)[1],
    "yaw": lambda q: _angles(q)[2],
    "yaw_cos": lambda q: math.cos(_angles(q)[2]),
    "yaw_sin": lambda q: math.sin(_angles(q)[2]),
}


def _imu_field(name):
    if name in _ANGLES:
        return lambda m: _ANGLES[name](m.orientation)
    part = re.fullmatch(r"(gyro|accel)_([xyz])", name)
    if not part:
        return None
    vector = {"gyro": "angular_velocity", "accel": "linear_acceleration"}[part[1]]
    return lambda m: getattr(getattr(m, vector), part[2])


def _odometry_field(name):
    if name in _ANGLES:
        return lambda m: _ANGLES[name](m.pose.pose.orientation)
    if name in ("x", "y", "z"):
        return lambda m: getattr(m.pose.pose.position, name)
    return {
        "speed": lambda m: m.twist.twist.linear.x,
        "side_speed": lambda m: m.twist.twist.linear.y,
        "yaw_rate": lambda m: m.twist.twist.angular.z,
    }.get(name)


def _joint_field(name):
    what, _, joint = name.partition(".")
    if what not in ("position", "velocity", "effort") or not joint:
        return None

    def get(message):
        if joint not in message.name:
            raise ValueError(f"the joint states have no joint {joint!r}: they have {', '.join(message.name)}")
        values = getattr(message, what)
        index = list(message.name).index(joint)
        if index >= len(values):
            raise ValueError(f"the joint states have no {what} of {joint!r}")
        return values[index]

    return get


_FIELDS = {"joints": _joint_field, "imu": _imu_field, "odometry": _odometry_field}


_KINDS = {str: "a text in quotes", dict: "an object in braces", list: "a list in brackets"}


def _is(kind, where, value):
    """value, if it is of that JSON type."""
    if not isinstance(value, kind):
        raise ValueError(  # noqa: TRY004  # the file is wrong, not the call
            f"{where}: not {_KINDS[kind]} ({value!r}): see the top of ros2_bridge.py")
    return value


def _get(kind, where, section, key):
    if key not in section:
        raise ValueError(f"{where}.{key}: missing: see the top of ros2_bridge.py")
    return _is(kind, f"{where}.{key}", section[key])


def _check_keys(where, section, known):
    _is(dict, where, section)
    unknown = set(section) - known
    if unknown:
        raise ValueError(f"{where}: {', '.join(sorted(unknown))}: no such key: there are {', '.join(sorted(known))}")


def _number(where, section, key, default):
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{where}.{key}: not a finite number ({value!r}): give one")
    return float(value)


class _Element:
    """One element of the observation: a field of a topic."""

    def __init__(self, where, section):
        _check_keys(where, section, _OBS_KEYS)
        self.name, self.unit = _get(str, where, section, "name"), _is(str, f"{where}.unit", section.get("unit", ""))
        self.topic, _, field = _get(str, where, section, "from").partition(".")
        self.what = f"{self.topic}.{field.partition('.')[0]}"
        self.field = _FIELDS.get(self.topic, lambda _: None)(field)
        if self.field is None:
            raise ValueError(f"{where}.from: not understood ({section['from']!r}): see the top of ros2_bridge.py")
        self.scale, self.offset = _number(where, section, "scale", 1), _number(where, section, "offset", 0)

    def of(self, message):
        return self.scale * self.field(message) + self.offset


class Ros2Robot:
    """A robot behind ROS topics, for optibfm_bridge.serve."""

    def __init__(self, settings: dict, node, clock=time.monotonic) -> None:
        _check_keys("settings", settings, _KEYS)
        self._clock = clock
        self._lock = threading.Lock()  # of all below it: callbacks come from the executor's thread
        self._newest = {}  # topic: message, arrival time
        self._commanded = None  # when the last command was; None: the failsafe is in force
        self._tripped = ""  # why no command counts until arm
        self._watched = clock()  # when the deadman last looked
        self._elements = [_Element(f"obs[{i}]", o) for i, o in enumerate(_get(list, "settings", settings, "obs"))]
        period = _number("settings", settings, "period", 0)
        self._stale = _number("settings", settings, "stale", 3 * period)
        if not (period > 0 and self._stale > 0):
            raise ValueError(f"settings.period, settings.stale: not positive ({period}, {self._stale}): give seconds")
        self._set_action(_get(list, "settings", settings, "action"))
        self.spec = bridge.Spec(
            name=_get(str, "settings", settings, "name"), period=period,
            obs=[bridge.Channel(e.name, e.unit) for e in self._elements], action=self._channels)
        self.spec.validate()
        self._subscribe(node, settings.get("topics", {}))
        self._set_command(node, _get(dict, "settings", settings, "command"))

    def _set_action(self, actions):
        self._channels, self._gains, self._to = [], [], []
        for i, a in enumerate(actions):
            where = f"action[{i}]"
            _check_keys(where, a, _ACTION_KEYS)
            self._channels.append(bridge.Channel(
                _get(str, where, a, "name"), _is(str, f"{where}.unit", a.get("unit", "")),
                min=_number(where, a, "min", -1), max=_number(where, a, "max", 1),
                max_rate=_number(where, a, "max_rate", 0), failsafe=_number(where, a, "failsafe", 0)))
            self._gains.append((_number(where, a, "scale", 1), _number(where, a, "offset", 0)))
            if "measured" in a:
                self._measure(where, _get(str, where, a, "measured"), self._channels[-1], *self._gains[-1])
            if isinstance(a.get("to"), bool) or not isinstance(a.get("to"), (str, int)):
                raise ValueError(  # noqa: TRY004  # the file is wrong, not the call
                    f"{where}.to: neither an output nor an index ({a.get('to')!r}): see the top of ros2_bridge.py")
            self._to.append(a["to"])
        if len(set(map(str, self._to))) != len(self._to):
            raise ValueError(f"action: two drive the same output ({self._to}): give each its own")

    def _measure(self, where, name, channel, scale, offset):
        """Names what measures a channel: its action is (state of the joint - offset) / scale."""
        element = next((e for e in self._elements if e.name == name), None)
        if element is None or element.what != "joints.position":
            raise ValueError(f"{where}.measured: not an observation of joints.position ({name!r}): name one")
        if element.scale == 0 or scale == 0:
            raise ValueError(f"{where}.measured: a scale is 0 ({element.scale}, {scale}): give another")
        channel.measured, channel.measured_scale = name, 1 / (element.scale * scale)
        channel.measured_offset = -(element.offset / element.scale + offset) / scale

    def _subscribe(self, node, topics):
        _check_keys("topics", topics, set(_TOPICS))
        for topic in sorted({e.topic for e in self._elements}):
            node.create_subscription(_TYPES[topic], _is(str, f"topics.{topic}", topics.get(topic, _TOPICS[topic])),
                                     lambda message, topic=topic: self._take(topic, message), qos_profile_sensor_data)

    def _set_command(self, node, command):
        _check_keys("command", command, _COMMAND_KEYS)
        kind = command.get("type", "twist")
        if not isinstance(kind, str) or kind not in _COMMANDS:
            raise ValueError(f"command.type: unknown ({kind!r}): choose {', '.join(_COMMANDS)}")
        if kind == "array":
            wrong = [] if sorted(map(str, self._to)) == sorted(map(str, range(len(self._to)))) else self._to
        else:
            wrong = [to for to in self._to if not isinstance(to, str) or not _TWIST.fullmatch(to)]
        if "frame" in command and kind != "twist_stamped":
            raise ValueError(f"command.frame: a command of type {kind} has no frame: leave it out")
        self._frame = _is(str, "command.frame", command.get("frame", "base_link"))
        self._message = {"twist": self._twist, "twist_stamped": self._twist_stamped, "array": self._array}[kind]
        if wrong:
            raise ValueError(f"action: to: not outputs of type {kind} ({wrong}): see the top of ros2_bridge.py")
        self._deadman = _number("command", command, "deadman", 0)
        if not self._deadman > 0:
            raise ValueError(f"command.deadman: not positive ({self._deadman}): give seconds, some periods")
        message, self._type, topic = _COMMANDS[kind]
        self._node = node
        self._publisher = node.create_publisher(message, _is(str, "command.topic", command.get("topic", topic)), 1)
        self._timer = node.create_timer(min(self._deadman / 4, 0.05), self.watch)

    def _take(self, topic, message):
        with self._lock:
            self._newest[topic] = message, self._clock()

    # What optibfm_bridge calls.

    def sense(self) -> tuple[list[float], float]:
        with self._lock:
            newest = dict(self._newest)
        now, oldest, values = self._clock(), math.inf, []
        for e in self._elements:
            if e.topic not in newest:
                raise RuntimeError(f"no message of {e.topic} has come yet: is its topic published?")
            message, at = newest[e.topic]
            if now - at > self._stale:
                raise RuntimeError(
                    f"the newest message of {e.topic} is {now - at:.3f} s old: is its topic still published?")
            oldest = min(oldest, at)
            values.append(e.of(message))
        return values, oldest

    def arm(self) -> None:
        self.sense()  # who cannot sense may not move
        problem = self._unheard()
        if problem:
            raise RuntimeError(problem)
        with self._lock:
            self._tripped = ""

    def _unheard(self):
        """Returns why no node takes the commands, "" if one does."""
        if self._publisher.get_subscription_count() > 0:
            return ""
        topic = self._publisher.topic_name
        found = sorted({i.topic_type for i in self._node.get_subscriptions_info_by_topic(topic)})
        if not found:
            return f"no node subscribes to {topic}: start the robot's controller, or correct command.topic"
        if self._type in found:
            return f"the QoS of the node that subscribes to {topic} does not match: see ros2 topic info -v {topic}"
        fixes = [f"set command.type to {kind}" for kind in ("twist", "twist_stamped") if _COMMANDS[kind][1] in found]
        fix = fixes[0] if fixes else "correct command.topic"
        return f"{topic} takes {', '.join(found)}, not {self._type}: {fix}"

    def act(self, action: tuple[float, ...]) -> None:
        with self._lock:
            if self._clock() - self._watched > self._deadman:
                self._trip(f"ROS has not called the deadman's timer for {self._deadman} s: "
                           "see what its executor does, then arm again")
            if self._tripped:
                raise bridge.Halted(self._tripped)
            self._publish(action)
            self._commanded = self._clock()

    def halt(self) -> None:
        with self._lock:
            self._fail_safe()

    def watch(self) -> None:
        """The deadman: called by a timer of ROS, in the executor's thread."""
        with self._lock:
            self._watched = self._clock()
            if self._commanded is None:
                return
            if self._watched - self._commanded > self._deadman:
                self._trip(f"no command came for {self._deadman} s: arm it again")
            elif self._publisher.get_subscription_count() == 0:  # one that returns must not move at once
                self._trip(f"no node subscribes to {self._publisher.topic_name} any more: see the robot's controller, "
                           "then arm again")

    def _trip(self, why):
        self._tripped = self._tripped or why
        self._fail_safe()

    def _fail_safe(self):
        self._commanded = None
        self._publish([c.failsafe for c in self._channels])

    def _publish(self, action):
        self._publisher.publish(self._message([s * v + o for v, (s, o) in zip(action, self._gains)]))

    def _twist(self, values):
        return self._fill(Twist(), values)

    def _twist_stamped(self, values):
        message = TwistStamped()
        message.header.stamp = self._node.get_clock().now().to_msg()  # ROS's time: the receiver compares it
        message.header.frame_id = self._frame
        self._fill(message.twist, values)
        return message

    def _fill(self, message, values):
        for to, value in zip(self._to, values):
            vector, axis = _TWIST.fullmatch(to).groups()
            setattr(getattr(message, vector), axis, value)
        return message

    def _array(self, values):
        message = Float64MultiArray()
        message.data = [v for _, v in sorted(zip(map(int, self._to), values))]
        return message


def _spin(executor):
    try:
        executor.spin()
    except ExternalShutdownException:
        pass
    except Exception as e:  # noqa: BLE001  # from now on commands are refused: the timer of the deadman has stopped
        print(f"ros2_bridge: ROS's executor has ended: {e!r}: start again", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves a robot of ROS 2 over optibfm's bridge.")
    parser.add_argument("settings", help="JSON file, see the top of this script")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    # A signal must not take the publisher away before the last halt.
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("optibfm_bridge")
    try:
        with open(args.settings, encoding="utf-8") as f:
            robot = Ros2Robot(json.load(f), node)
    except (OSError, ValueError) as e:
        sys.exit(f"ros2_bridge: {args.settings}: {e}")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    spinning = threading.Thread(target=_spin, args=(executor,), daemon=True)
    spinning.start()
    try:
        bridge.run(robot, args)
    finally:
        robot.halt()
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
