"""The server of optibfm's bridge for robots written in Python.

It needs Python 3.8 and the standard library only. hal/bridge/PROTOCOL.md in optibfm's repository describes the
protocol. A robot is an object like this one (examples/puck has a complete one):

    import optibfm_bridge as bridge

    class Cart:
        spec = bridge.Spec(
            name="cart", period=0.02,
            obs=[bridge.Channel("position", "m"), bridge.Channel("speed", "m/s")],
            action=[bridge.Channel("force", "N", min=-10, max=10)])

        def sense(self):                # -> (observation, time of the sample)
            return [self.x, self.v], self.t
        def act(self, action): ...      # set the command
        def arm(self): ...              # optional
        def halt(self): ...             # the failsafe command; never raises

        # Simulators have these too, real robots must not:
        def advance(self): ...          # simulates one period with the last command
        def reset(self, seed): ...      # starts an episode; counts only with advance
        def reward(self): ...           # of the state that sense returns, or None

    bridge.main(Cart())

An action in rad, deg, m or mm is a position. Name the observation that measures it: otherwise optibfm refuses to arm a
real robot, because the actuator would jump to the first command.

    obs=[bridge.Channel("knee_angle", "deg"), ...],
    action=[bridge.Channel("knee", "rad", min=-1, max=1, measured="knee_angle", measured_scale=math.pi / 180), ...]

The time of a sample is in seconds: time.monotonic() for a real robot, simulated
time for a simulator. A robot without advance() can be driven in free mode only.
The server advances a simulator in free mode once a period.

The server has one thread. While a method of the robot waits, for example for a bus that hangs, the server neither
receives requests nor notices a silent client. Methods of a real robot must return within a period; otherwise the robot
needs its own deadman, like ros2_bridge.py.

A robot with pictures has frame(), which returns a JPEG as bytes. The server offers them as an MJPEG stream on a
separate socket, --view, and calls frame() from another thread, only while someone watches. RuntimeError says why there
is no picture.

A robot with tasks has their names in `tasks`, the current one in `task`, and select(task), which raises ValueError for
an unknown name. The optional `episode_steps` is the length of an episode. Before a client's first request the server
sets the attribute `free` of a robot that has it: whether the client is in mode free, where no reset follows an episode.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.server
import math
import os
import select
import signal
import socket
import socketserver
import stat
import struct
import sys
import threading
import time
import typing
import unicodedata

__version__ = "1.0.0"  # of the package; pyproject.toml reads it

VERSION = 1  # of the protocol
VERSION_MEASURED = 2  # of a welcome with a measured action
MAGIC = b"OBFM"
HELLO, WELCOME, SENSE, ACT, RESET, ARM, HALT, BYE, STATE, OK, ERROR = range(1, 12)
NAMES = dict(enumerate(["hello", "welcome", "sense", "act", "reset", "arm", "halt", "bye", "state", "ok", "error"], 1))
LOCKSTEP, FREE = 1, 2
CAN_RESET, CAN_REWARD = 1, 2
PROTOCOL, ROBOT, HALTED, UNSUPPORTED = 1, 2, 3, 4

_HEADER = struct.Struct("<IBBHI")
_STATE = struct.Struct("<qqd")
_MAX_CHANNELS, _MAX_TASKS, _MAX_NAME = 1024, 256, 128
_MAX_HELLO, _MAX_TEXT = 4096, 1024
_MAX_AGE = 3600
_POSITIONS = ("rad", "deg", "m", "mm")  # units
_PATIENCE = 60  # seconds that a server started by a client waits for it
_START_PATIENCE = 60  # seconds from hello to the first request of a client with a deadman
_HELLO_PATIENCE = 10
_FRAME_PERIOD = 1 / 15  # seconds


class Halted(Exception):
    """The robot is halted. act() may raise it."""


class ProtocolError(Exception):
    """The client broke the protocol."""


class Gone(Exception):
    """The client disconnected or is silent for too long."""


@dataclasses.dataclass
class Channel:
    """One element of an observation or of an action; see hal.Channel.

    measured: the observation that measures the actuator of an action. The actuator is at
    measured_scale * observation + measured_offset, in the unit of the action.
    """

    name: str
    unit: str = ""
    min: float = 0.0
    max: float = 0.0
    max_rate: float = 0.0
    failsafe: float = 0.0
    measured: str = ""
    measured_scale: float = 1.0
    measured_offset: float = 0.0


@dataclasses.dataclass
class Spec:
    """What a robot is; see hal.Spec. The period is in seconds."""

    name: str
    period: float
    obs: list[Channel]
    action: list[Channel]

    def validate(self) -> None:
        """Raises ValueError for a specification that a client would refuse."""
        _check_name("robot", self.name)
        if not (self.period > 0 and math.isfinite(self.period)):
            raise ValueError(f"spec of {self.name}: the period is not positive ({self.period}); give seconds")
        for what, channels in (("obs", self.obs), ("action", self.action)):
            if not 0 < len(channels) <= _MAX_CHANNELS:
                raise ValueError(f"spec of {self.name}: {what}: {len(channels)} channels; give 1 to {_MAX_CHANNELS}")
            names = [c.name for c in channels]
            for c in channels:
                _check_name(what, c.name)
                for key in ("min", "max", "max_rate", "failsafe", "measured_scale", "measured_offset"):
                    if not _is_number(getattr(c, key)):
                        raise ValueError(
                            f"spec of {self.name}: {what} {c.name!r}: {key} is {_kind(getattr(c, key))}; give a number")
                if len(c.unit.encode()) > _MAX_NAME:
                    raise ValueError(f"spec of {self.name}: {what} {c.name!r}: the unit is too long ({len(c.unit)}); "
                                     f"give at most {_MAX_NAME} bytes")
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(
                        f"spec of {self.name}: {what}: two channels have the same name ({name!r}); rename one")
        for c in self.action:
            if not (math.isfinite(c.min) and math.isfinite(c.max) and c.min < c.max and c.min <= c.failsafe <= c.max):
                raise ValueError(
                    f"spec of {self.name}: action {c.name!r}: not min <= failsafe <= max, min < max, finite; "
                    "correct the limits"
                )
            if not 0 <= c.max_rate < math.inf:
                raise ValueError(
                    f"spec of {self.name}: action {c.name!r}: bad max_rate ({c.max_rate}); give units per "
                    "second, or 0 for none"
                )
        self._validate_measured()

    def _validate_measured(self):
        names = {c.name for c in self.obs}
        for what, channels in (("obs", self.obs), ("action", self.action)):
            for c in channels:
                where, line = f"spec of {self.name}: {what} {c.name!r}", (c.measured_scale, c.measured_offset)
                if not all(map(math.isfinite, line)) or c.measured_scale == 0:
                    raise ValueError(f"{where}: bad measured_scale or measured_offset {line}; "
                                     "give finite numbers, and no scale of 0")
                if not c.measured and line != (1, 0):
                    raise ValueError(f"{where}: measured_scale or measured_offset without measured {line}; "
                                     "name an observation")
                if c.measured and what == "obs":
                    raise ValueError(f"{where}: an observation is not measured by another ({c.measured!r}); "
                                     "remove measured")
                if c.measured and c.measured not in names:
                    raise ValueError(f"{where}: measured by an unknown observation ({c.measured!r}); name one of obs")

    def unmeasured(self) -> list[str]:
        """Returns the names of the actions that are positions, by their unit, and that no observation measures."""
        return [c.name for c in self.action if c.unit in _POSITIONS and not c.measured]


class Robot(typing.Protocol):
    """What every robot has. The documentation of this module has the optional methods."""

    spec: Spec

    def sense(self) -> tuple[typing.Sequence[float], float]:
        """Returns the observation, one number a channel of spec.obs, and the time of the sample in seconds."""

    def act(self, action: tuple[float, ...]) -> None:
        """Sets the command, one number a channel of spec.action, within its limits."""

    def halt(self) -> None:
        """Sets the failsafe command. Never raises."""


def _check_name(where, name):
    if not isinstance(name, str):
        raise ValueError(f"{where}: the name is {_kind(name)}; give a string")  # noqa: TRY004  # run prints it
    size = len(name.encode())
    if not 0 < size <= _MAX_NAME or any(unicodedata.category(c).startswith("C") for c in name):
        raise ValueError(f"{where}: bad name ({name!r}); give 1 to {_MAX_NAME} bytes, printable")


def _text(s):
    b = s.encode()
    return struct.pack("<H", len(b)) + b


def _channels(channels, measured=False):
    parts = [struct.pack("<H", len(channels))]
    for c in channels:
        parts += [_text(c.name), _text(c.unit), struct.pack("<4d", c.min, c.max, c.max_rate, c.failsafe)]
        if measured:
            line = (c.measured_scale, c.measured_offset) if c.measured else (0, 0)
            parts += [_text(c.measured), struct.pack("<2d", *line)]
    return b"".join(parts)


def _parse_hello(payload):
    """-> (mode, deadman in seconds, task)"""
    fixed = struct.Struct("<4sHBBIH")
    if len(payload) < fixed.size:
        raise ProtocolError(f"hello: too short ({len(payload)} bytes); is the client one of a bridge?")
    magic, version, mode, zero, deadman, size = fixed.unpack_from(payload)
    if magic != MAGIC:
        raise ProtocolError(f"hello: wrong magic ({magic!r}); is the client one of a bridge?")
    if version != VERSION:
        raise ProtocolError(f"hello: wrong version ({version}, expected {VERSION}); update the older side")
    if mode not in (LOCKSTEP, FREE) or zero != 0:
        raise ProtocolError(f"hello: unknown mode or reserved byte ({mode}, {zero}); send 1 (lockstep) or 2 (free)")
    task = payload[fixed.size:]
    if size > _MAX_NAME or len(task) != size:
        raise ProtocolError(
            f"hello: the task has a wrong length ({len(task)} bytes, {size} announced); check the encoding")
    try:
        return mode, deadman / 1000, task.decode()
    except UnicodeDecodeError as e:
        raise ProtocolError("hello: the task is not UTF-8; send UTF-8") from e


def _kind(value):
    return "None" if value is None else f"{type(value).__name__} ({str(value)[:60]})"


def _is_number(value):
    try:
        struct.pack("<d", value)
    except (struct.error, TypeError, ValueError, OverflowError):
        return False
    return True


def _wrong(obs, channels):
    """Returns what is wrong with an observation, and names the channel."""
    try:
        values = list(obs)
    except TypeError:
        return f"sense() returned {_kind(obs)} as the observation; return a list of {len(channels)} numbers"
    for c, value in zip(channels, values):
        if not _is_number(value):
            return f"sense() returned {_kind(value)} for the channel {c.name!r}; return a number"
    if len(values) < len(channels):
        return (f"sense() returned {len(values)} values for {len(channels)} channels; "
                f"the first that is missing is {channels[len(values)].name!r}")
    if len(values) > len(channels):
        return f"sense() returned {len(values)} values for {len(channels)} channels; the last is {channels[-1].name!r}"
    c, value = next(((c, v) for c, v in zip(channels, values) if abs(v) > 3.4e38), (channels[0], values[0]))
    return f"sense() returned {value} for the channel {c.name!r}, which float32 cannot hold"


def _can_reset(robot):
    """Whether a robot is a simulator. optibfm arms one without an operator, and tolerates a busy computer. A real robot
    whose own reset() homes it is none: it has no advance()."""
    return hasattr(robot, "advance") and hasattr(robot, "reset")


class _Session:
    """One client's connection."""

    def __init__(self, conn, robot):
        self.conn = conn
        self.robot = robot
        self.received = bytearray()
        self.seq = -1  # of the current request
        self.halted = True
        self.mode = LOCKSTEP
        self.deadman = 0.0
        self.heard = False  # a request has arrived
        self.next_step = math.inf
        self.actions = struct.Struct(f"<{len(robot.spec.action)}f")
        self.sizes = {SENSE: 0, ACT: self.actions.size, RESET: 8, ARM: 0, HALT: 0}  # of the requests' payloads
        self.observation = struct.Struct(f"<{len(robot.spec.obs)}f")
        # The limits, rounded as the actions were.
        self.limits = list(zip(self.actions.unpack(self.actions.pack(*(c.min for c in robot.spec.action))),
                               self.actions.unpack(self.actions.pack(*(c.max for c in robot.spec.action)))))

    def run(self):
        try:
            self._greet()
            while self._answer():
                pass
        except ProtocolError as e:
            self._refuse(PROTOCOL, HELLO, e)
            raise

    def _greet(self):
        kind, payload = self._receive(_MAX_HELLO, time.monotonic() + _HELLO_PATIENCE)
        if kind != HELLO:
            raise ProtocolError(f"{NAMES[kind]}: it came before hello; say hello first")
        self.mode, self.deadman, task = _parse_hello(payload)
        if self.deadman and _can_reset(self.robot):  # a simulator moves nothing
            self.deadman = max(self.deadman, _START_PATIENCE)
        simulator = hasattr(self.robot, "advance")
        if self.mode == LOCKSTEP and not simulator:
            raise self._unsupported("this robot has no advance(); use mode free")
        try:
            if task:
                self._select(task)
        except Exception as e:  # such as a ValueError: no such task
            raise self._unsupported(str(e) or type(e).__name__) from e
        if hasattr(self.robot, "free"):
            self.robot.free = self.mode == FREE
        self._send(WELCOME, self._welcome())
        if self.mode == FREE:
            self.conn.setblocking(False)
            if simulator:
                self.next_step = time.monotonic() + self.robot.spec.period

    def _select(self, task):
        if not hasattr(self.robot, "select"):
            raise ValueError(f"unknown task {task!r}: this robot has no tasks")
        self.robot.select(task)

    def _unsupported(self, text):
        self._refuse(UNSUPPORTED, HELLO, text)
        return Gone(text)

    def _welcome(self):
        robot, spec = self.robot, self.robot.spec
        spec.validate()
        capabilities = CAN_RESET * _can_reset(robot) | CAN_REWARD * hasattr(robot, "reward")
        tasks = list(getattr(robot, "tasks", ()))[:_MAX_TASKS]
        measured = any(c.measured for c in spec.action)
        version = VERSION_MEASURED if measured else VERSION  # old clients accept VERSION only
        return b"".join([
            MAGIC,
            struct.pack("<HBBIQ", version, self.mode, capabilities, getattr(robot, "episode_steps", 0),
                        round(spec.period * 1e9)),
            _text(spec.name),
            _text(getattr(robot, "task", "")),
            struct.pack("<H", len(tasks)), *map(_text, tasks),
            _channels(spec.obs),
            _channels(spec.action, measured)
        ])

    def _answer(self):
        """Answers one request. Returns False after bye."""
        kind, payload = self._receive(max(8, self.actions.size), self._deadline())
        self.heard = True
        if kind == BYE:
            return False
        if kind not in self.sizes:
            raise ProtocolError(f"{NAMES[kind]}: not a request; send sense, act, reset, arm, halt or bye")
        if len(payload) != self.sizes[kind]:
            raise ProtocolError(
                f"{NAMES[kind]}: wrong length ({len(payload)} bytes, expected {self.sizes[kind]}); check the channels")
        try:
            self._do(kind, payload)
        except Halted as e:
            self._refuse(HALTED, kind, e)
        except NotImplementedError as e:
            self._refuse(UNSUPPORTED, kind, e)
        except (Gone, OSError):
            raise
        except Exception as e:  # noqa: BLE001  # the client judges the errors of the robot
            self._refuse(ROBOT, kind, e)
        return True

    def _deadline(self):
        """Returns when the client counts as silent. Before its first request it may still be starting, and the
        robot is halted."""
        if self.mode != FREE or not self.deadman:
            return math.inf
        return time.monotonic() + (self.deadman if self.heard else _START_PATIENCE)

    def _do(self, kind, payload):
        if kind == ACT:
            self._act(self.actions.unpack(payload))
        elif kind == RESET:
            if not _can_reset(self.robot):
                raise NotImplementedError("this robot cannot be reset")
            self.robot.reset(struct.unpack("<Q", payload)[0])
            self._send_state()
        elif kind == SENSE:
            self._send_state()
        elif kind == ARM:
            if hasattr(self.robot, "arm"):
                self.robot.arm()
            self.halted = False
            self._send(OK)
        else:
            self.halted = True
            self.robot.halt()
            self._send(OK)

    def _act(self, action):
        if self.halted:
            raise Halted("the robot is halted: arm it before acting")
        for v, (low, high), c in zip(action, self.limits, self.robot.spec.action):
            if not low <= v <= high:
                raise ValueError(
                    f"action {c.name!r} is not within its limits ({v}, limits {c.min} to {c.max}); clip it")
        self.robot.act(action)
        if self.mode == LOCKSTEP:
            self.robot.advance()
            self._send_state()

    def _send_state(self):
        sample = self.robot.sense()
        try:
            obs, at = sample
        except (TypeError, ValueError):
            raise ValueError(f"sense() returned {_kind(sample)}; return (observation, time)") from None
        if not _is_number(at):
            raise ValueError(f"sense() returned {_kind(at)} as the time of the sample; return seconds")
        reward = self.robot.reward() if hasattr(self.robot, "reward") else None
        if reward is not None and not _is_number(reward):
            raise ValueError(f"reward() returned {_kind(reward)}; return a number or None")
        age = 0.0
        if self.mode == FREE and not hasattr(self.robot, "advance"):
            now = time.monotonic()
            if at > now + self.robot.spec.period:  # it would hide old samples
                raise ValueError(
                    f"the sample is {at - now:.3f} s in the future; sense must return the time.monotonic() of "
                    "the sample"
                )
            age = min(max(now - at, 0), _MAX_AGE)
        elif self.mode == FREE:
            age = max(time.monotonic() - (self.next_step - self.robot.spec.period), 0)
        head = _STATE.pack(round(at * 1e9), round(age * 1e9), reward if reward is not None else 0.0)
        self._send(STATE, head + self._pack(obs), flags=reward is not None)

    def _pack(self, obs):
        try:
            return self.observation.pack(*obs)
        except (struct.error, TypeError, ValueError, OverflowError):
            raise ValueError(_wrong(obs, self.robot.spec.obs)) from None

    def _refuse(self, code, kind, e):
        text = (str(e) or type(e).__name__).encode()[:_MAX_TEXT].decode(errors="ignore")
        self._send(ERROR, bytes([code, kind]) + text.encode())

    def _send(self, kind, payload=b"", flags=0):
        data = _HEADER.pack(len(payload), kind, flags, 0, self.seq) + payload
        if self.mode == LOCKSTEP:
            self.conn.sendall(data)
            return
        try:
            sent = self.conn.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            raise Gone("the client does not take its answers")

    def _receive(self, limit, deadline):
        """-> (kind, payload) of the next frame."""
        self._fill(_HEADER.size, deadline)
        expected = (self.seq + 1) % (1 << 32)
        length, kind, flags, zero, self.seq = _HEADER.unpack_from(self.received)
        if kind not in NAMES:
            raise ProtocolError(f"unknown kind of frame ({kind}); is the client one of a bridge?")
        if flags or zero:
            raise ProtocolError(f"{NAMES[kind]}: reserved bytes are not zero ({flags}, {zero}); send zeros there")
        if self.seq != expected:
            raise ProtocolError(
                f"{NAMES[kind]}: wrong sequence number ({self.seq}, expected {expected}); number requests 0, 1, 2")
        if length > limit:
            raise ProtocolError(f"{NAMES[kind]}: too long ({length} bytes, at most {limit} here); check the length")
        end = _HEADER.size + length
        self._fill(end, deadline)
        payload = bytes(self.received[_HEADER.size:end])
        del self.received[:end]
        return kind, payload

    def _fill(self, n, deadline):
        while len(self.received) < n:
            self._wait(deadline)
            try:
                data = self.conn.recv(1 << 16)
            except BlockingIOError:
                continue
            if not data:
                where = " within a frame" if self.received else ""
                raise Gone(f"the client left without bye{where}")
            self.received += data

    def _advance(self):
        try:
            self.robot.advance()
        except Exception as e:  # no request to answer
            raise Gone(f"the robot failed as its time passed: {e}") from e

    def _wait(self, deadline):
        """Waits for the client and advances a simulator meanwhile."""
        if self.mode == LOCKSTEP and deadline == math.inf:
            _ready(self.conn)
            return
        while True:
            now = time.monotonic()
            if now >= deadline:
                raise Gone("the client is silent for too long")
            if now >= self.next_step:
                self._advance()
                # A simulator slower than real time still receives requests.
                self.next_step = max(self.next_step + self.robot.spec.period, time.monotonic())
            if _ready(self.conn, min(deadline, self.next_step)):
                return


def _ready(sock, until=math.inf):
    """Waits until a socket can be read, or until a time. Returns whether it can be read.

    It wakes every second: a signal between Python's last look for signals and a wait does not end that wait.
    """
    while True:
        left = until - time.monotonic()
        if select.select([sock], [], [], min(max(left, 0), 1))[0]:
            return True
        if left <= 1:
            return False


def _abandoned(path):
    """Reports whether path is a socket without a server."""
    if not os.path.exists(path) or not stat.S_ISSOCK(os.stat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a busy server would block the probe
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except BlockingIOError:
            pass
    return False


def _listen(address):
    network, _, where = address.partition(":")
    if network == "unix" and where:
        if _abandoned(where):
            os.unlink(where)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(where)
        except OSError as e:
            listener.close()
            raise ValueError(f"listen on {address}: {e}; choose another address or end the other server") from e
    elif network == "tcp" and where.rpartition(":")[2].isdigit():
        host, _, port = where.rpartition(":")
        listener = socket.create_server((host, int(port)))
    else:
        raise ValueError(f"listen: unknown address ({address!r}); give unix:/path or tcp:host:port")
    listener.listen(1)
    return listener


def serve(robot: Robot, address: str, once: bool = False) -> None:
    """Serves clients at the address (unix:/path or tcp:host:port) one after the other, or only one."""
    robot.spec.validate()
    unmeasured = robot.spec.unmeasured()
    if unmeasured and not hasattr(robot, "advance"):  # a simulator may jump
        _say(f"no observation measures these positions: {', '.join(unmeasured)}; give their channels measured=, "
             "or optibfm refuses to arm")
    robot.halt()
    listener = _listen(address)
    try:
        while True:
            if not _ready(listener, time.monotonic() + _PATIENCE if once else math.inf):
                _say(f"no client within {_PATIENCE} s; exiting")
                return
            conn, _ = listener.accept()
            _serve_one(conn, robot)
            if once:
                return
    finally:
        robot.halt()
        listener.close()
        if address.startswith("unix:"):
            try:
                os.unlink(address[len("unix:"):])
            except FileNotFoundError:
                pass  # the client removed it


def _serve_one(conn, robot):
    with conn:
        conn.setblocking(True)
        if conn.family != socket.AF_UNIX:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # detects a dead client host
        try:
            _Session(conn, robot).run()
        except (ProtocolError, Gone, OSError) as e:
            _say(f"connection ended: {e}")
        finally:
            robot.halt()


def _say(text):
    print(f"bridge: {text}", file=sys.stderr, flush=True)


class _Frames(http.server.BaseHTTPRequestHandler):
    """An MJPEG stream of the robot's pictures."""

    error_message_format, error_content_type = "%(explain)s", "text/plain"

    def do_GET(self):
        try:
            first = self._part()
        except RuntimeError as e:
            self.send_error(503, explain=str(e))
            return
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        try:
            self.wfile.write(first)
            while True:
                due = time.monotonic() + _FRAME_PERIOD
                self.wfile.write(self._part())
                time.sleep(max(due - time.monotonic(), 0))
        except (OSError, RuntimeError):  # the next request reports the error
            self.close_connection = True

    def _part(self):
        at = time.monotonic_ns()
        jpeg = self.server.robot.frame()
        if not isinstance(jpeg, (bytes, bytearray)):
            raise RuntimeError(  # noqa: TRY004  # the viewer gets it
                f"frame() returned {_kind(jpeg)}; return a JPEG as bytes")
        return (b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\nX-Monotonic-Ns: %d\r\n\r\n" %
                (len(jpeg), at) + jpeg + b"\r\n")

    def log_message(self, *_):
        pass

    def address_string(self):  # a Unix socket has none
        return "local"


class _FrameServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # the watcher has left
            super().handle_error(request, client_address)


def _serve_frames(robot, path):
    """Serves the robot's pictures on a Unix socket until the program ends."""
    if _abandoned(path):
        os.unlink(path)
    server = _FrameServer(path, _Frames)
    server.robot = robot
    threading.Thread(target=server.serve_forever, daemon=True).start()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --listen and --once to a parser."""
    parser.add_argument("--listen", default=os.environ.get("OPTIBFM_BRIDGE_ADDRESS"), metavar="ADDRESS",
                        help="unix:/path or tcp:host:port (default: $OPTIBFM_BRIDGE_ADDRESS)")
    parser.add_argument("--view", default=os.environ.get("OPTIBFM_BRIDGE_VIEW"), metavar="PATH",
                        help="a Unix socket for the robot's pictures (default: $OPTIBFM_BRIDGE_VIEW)")
    parser.add_argument("--once", action="store_true", default=os.environ.get("OPTIBFM_BRIDGE_ONCE") == "1",
                        help="serve one connection, then exit")


def run(robot: Robot, args: argparse.Namespace) -> None:
    """Serves the robot with the arguments of add_arguments until a signal."""
    if not args.listen:
        sys.exit("bridge: no address; give --listen unix:/path or tcp:host:port")
    for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal is closed
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: sys.exit(0))
    try:
        if args.view and hasattr(robot, "frame"):
            _serve_frames(robot, args.view)
        serve(robot, args.listen, once=args.once)
    except KeyboardInterrupt:
        pass
    except (OSError, ValueError) as e:
        sys.exit(f"bridge: {e}")


def main(robot: Robot) -> None:
    """Runs the command line of a script that serves one robot."""
    parser = argparse.ArgumentParser(description=f"Serves {robot.spec.name} over optibfm's bridge.")
    add_arguments(parser)
    run(robot, parser.parse_args())
