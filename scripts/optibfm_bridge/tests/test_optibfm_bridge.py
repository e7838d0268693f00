"""Tests of the installed package: python -m unittest discover -s scripts/optibfm_bridge/tests.

hal/bridge's tests drive it from the other side.
"""

import contextlib
import io
import math
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import optibfm_bridge as bridge


class Cart:
    """A real robot, without advance: free mode only."""

    def __init__(self):
        self.spec = bridge.Spec("cart", 0.02, [bridge.Channel("x", "m")],
                                [bridge.Channel("force", "N", min=-10, max=10)])
        self.x, self.age, self.done = 0.5, 0.0, []

    def sense(self):
        return [self.x], time.monotonic() - self.age

    def act(self, action):
        self.done.append(action[0])

    def halt(self):
        self.done.append("halt")


class Simulated(Cart):
    def advance(self):
        raise ArithmeticError("it fell through the floor")


class Client(unittest.TestCase):
    """One connection to a session, which serves a robot in a thread."""

    def connect(self, robot, mode=bridge.FREE, deadman_ms=0, task=b""):
        self.robot, self.seq, self.said = robot, 0, io.StringIO()
        self.here, there = socket.socketpair()
        self.addCleanup(self.here.close)
        self.here.settimeout(10)
        self.server = threading.Thread(target=self.serve, args=(there, robot))
        self.server.start()
        self.addCleanup(self.server.join)
        self.addCleanup(self.here.close)
        self.send(bridge.HELLO, bridge.MAGIC + struct.pack("<HBBIH", 1, mode, 0, deadman_ms, len(task)) + task)
        return self.receive()

    def serve(self, conn, robot):
        with contextlib.redirect_stderr(self.said):
            bridge._serve_one(conn, robot)

    def send(self, kind, payload=b"", seq=None):
        self.here.sendall(struct.pack("<IBBHI", len(payload), kind, 0, 0, self.seq if seq is None else seq) + payload)
        self.seq += 1

    def receive(self):
        """-> (kind, payload), or None at the end."""
        with self.here.makefile("rb", buffering=0) as file:
            head = file.read(12)
            if not head:
                return None
            length, kind, *_ = struct.unpack("<IBBHI", head)
            return kind, file.read(length) if length else b""

    def refused(self, code, text):
        kind, payload = self.receive()
        self.assertEqual((kind, payload[0]), (bridge.ERROR, code))
        self.assertIn(text, payload[2:].decode())

    def ended(self, says):
        self.assertIsNone(self.receive())
        self.server.join()
        self.assertIn(says, self.said.getvalue())
        self.assertEqual(self.robot.done[-1], "halt")


class ASession(Client):
    def test_refuses_actions_that_are_not_numbers_or_not_within_the_limits(self):
        self.connect(Cart())
        self.send(bridge.ARM)
        self.assertEqual(self.receive()[0], bridge.OK)
        for action in (math.nan, math.inf, 10.1):
            self.send(bridge.ACT, struct.pack("<f", action))
            self.refused(bridge.ROBOT, "not within its limits")
        self.assertEqual(self.robot.done, [])

    def test_says_that_a_sample_cannot_be_of_the_future(self):
        self.connect(Cart())
        self.robot.age = -1e9  # as with time.time()
        self.send(bridge.SENSE)
        self.refused(bridge.ROBOT, "in the future; sense must return the time.monotonic()")

    def test_names_the_channel_of_a_wrong_observation(self):
        self.connect(Cart())
        self.robot.spec.obs.append(bridge.Channel("speed", "m/s"))  # the session has read one channel
        for sample, text in (
            (None, "sense() returned None; return (observation, time)"),
            ([1.0], "return (observation, time)"),
            (([], 0.0), "0 values for 2 channels; the first that is missing is 'x'"),
            (([1.0, 2.0, 3.0], 0.0), "3 values for 2 channels; the last is 'speed'"),
            ((["1"], 0.0), "str (1) for the channel 'x'; return a number"),
            (([None], 0.0), "None for the channel 'x'"),
            (([1e39], 0.0), "1 values for 2 channels; the first that is missing is 'speed'"),
            (([1e39, 0.0], 0.0), "sense() returned 1e+39 for the channel 'x'"),
            ((3.0, 0.0), "float (3.0) as the observation; return a list of 2 numbers"),
            (([1.0], "now"), "str (now) as the time of the sample"),
        ):
            self.robot.sense = lambda sample=sample: sample
            self.send(bridge.SENSE)
            self.refused(bridge.ROBOT, text)

    def test_says_that_a_reward_is_a_number(self):
        robot = Cart()
        robot.reward = lambda: "good"
        self.connect(robot)
        self.send(bridge.SENSE)
        self.refused(bridge.ROBOT, "reward() returned str (good); return a number or None")

    def test_ends_at_a_request_out_of_order(self):
        self.connect(Cart())
        self.send(bridge.ARM, seq=7)
        self.refused(bridge.PROTOCOL, "wrong sequence number (7, expected 1)")
        self.ended("wrong sequence number")

    def test_halts_at_a_frame_that_stays_half(self):
        self.connect(Cart(), deadman_ms=100)
        self.send(bridge.ARM)
        self.assertEqual(self.receive()[0], bridge.OK)
        self.here.sendall(struct.pack("<IBBHI", 4, bridge.ACT, 0, 0, 2) + b"\0\0")
        self.ended("silent for too long")

    def test_a_simulator_waits_longer_than_the_deadman(self):
        class Resettable(Cart):
            def advance(self):
                pass

            def reset(self, seed):
                pass

        self.connect(Resettable(), deadman_ms=50)
        for _ in range(2):
            self.send(bridge.ARM)
            self.assertEqual(self.receive()[0], bridge.OK)
            time.sleep(0.2)

    def test_a_real_robot_with_a_reset_is_no_simulator(self):
        class Homing(Cart):
            def reset(self, seed):
                self.done.append("reset")

        capabilities = self.connect(Homing(), deadman_ms=50)[1][7]
        self.assertEqual(capabilities, 0)
        self.send(bridge.RESET, struct.pack("<Q", 1))
        self.assertEqual(self.receive()[0], bridge.ERROR)
        self.assertNotIn("reset", self.robot.done)
        self.ended("silent for too long")

    def test_halts_where_a_simulation_fails_as_its_time_passes(self):
        self.connect(Simulated())
        self.ended("it fell through the floor")

    def test_answers_a_robot_that_cannot_begin_a_task(self):
        class Picky(Cart):
            def select(self, task):
                raise RuntimeError("its model is missing")

        kind, payload = self.connect(Picky(), task=b"stand")
        self.assertEqual((kind, payload[0]), (bridge.ERROR, bridge.UNSUPPORTED))
        self.ended("its model is missing")


class AnAddress(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name) / "socket")

    def test_on_which_another_server_listens_is_left_to_it(self):
        with bridge._listen(f"unix:{self.path}") as first:
            with self.assertRaisesRegex(ValueError, "in use; choose another address or end the other server"):
                bridge._listen(f"unix:{self.path}")
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(self.path)
                first.accept()[0].close()

    def test_that_a_dead_server_left_behind_is_taken_over(self):
        bridge._listen(f"unix:{self.path}").close()
        bridge._listen(f"unix:{self.path}").close()

    def test_that_is_a_file_or_not_understood_is_refused(self):
        Path(self.path).write_text("precious")
        for address in (f"unix:{self.path}", "tcp:host", "robot.sock"):
            with self.assertRaisesRegex(ValueError, "listen"):
                bridge._listen(address)
        self.assertEqual(Path(self.path).read_text(), "precious")


class AServer(unittest.TestCase):
    PROGRAM = """if True:
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background ignores
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        sys.path.insert(0, sys.argv.pop(1))
        import optibfm_bridge as bridge
        from test_optibfm_bridge import Cart
        cart = Cart()
        cart.halt = lambda: print("halt", flush=True)
        bridge.main(cart)
    """

    def test_halts_the_robot_when_it_is_told_to_end(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                server = subprocess.Popen([sys.executable, "-c", self.PROGRAM, str(Path(__file__).resolve().parent),
                                           "--listen", f"unix:{folder}/socket"], stdout=subprocess.PIPE, text=True)
                self.addCleanup(server.kill)
                with self.client(f"{folder}/socket", server):
                    server.send_signal(number)
                    said, _ = server.communicate(timeout=60)
                # Before the client, after it, and at the end.
                self.assertEqual((said.split(), server.returncode), (["halt"] * 3, 0))
                self.assertFalse(Path(folder, "socket").exists())

    @staticmethod
    def client(path, server):
        """A connection that was welcomed."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        while client.connect_ex(path) and server.poll() is None:
            time.sleep(0.02)
        hello = bridge.MAGIC + struct.pack("<HBBIH", 1, bridge.FREE, 0, 0, 0)
        client.sendall(struct.pack("<IBBHI", len(hello), bridge.HELLO, 0, 0, 0) + hello)
        client.recv(1)
        return client


class ASpec(unittest.TestCase):
    def test_that_a_client_would_refuse_is_refused_here(self):
        def spec(period=0.1, obs=("x",), **limits):
            return bridge.Spec("cart", period, [bridge.Channel(n) for n in obs],
                               [bridge.Channel("a", **{"min": -1, "max": 1, **limits})])

        spec().validate()
        for bad, says in ((spec(period=0), "period is not positive"), (spec(obs=()), "0 channels"),
                          (spec(obs=("x", "x")), "the same name"), (spec(obs=("x\n", )), "bad name"),
                          (spec(min=1), "not min <= failsafe"), (spec(failsafe=2), "not min <= failsafe"),
                          (spec(max=math.inf), "finite"), (spec(max_rate=-1), "bad max_rate"),
                          (spec(max_rate=math.nan), "bad max_rate"), (spec(unit="m" * 200), "unit is too long")):
            with self.subTest(says), self.assertRaisesRegex(ValueError, says):
                bad.validate()


class Arm(Cart):
    """A real robot with one position, which an observation in other units measures, and one speed."""

    def __init__(self):
        super().__init__()
        knee = bridge.Channel("knee", "rad", min=-1, max=1, max_rate=2, measured="q", measured_scale=0.5,
                              measured_offset=-1)
        self.spec = bridge.Spec("arm", 0.02, [bridge.Channel("q", "deg")],
                                [knee, bridge.Channel("wheel", min=-1, max=1)])


class AMeasurement(Client):
    ZEROS, HALF, ONE, TWO, MINUS = (struct.pack("<d", v) for v in (0, 0.5, 1, 2, -1))

    def welcome(self, version, *tails):
        """The welcome of an Arm in free mode; tails: what follows failsafe in each action."""
        knee, wheel = tails
        return (b"OBFM" + bytes([version, 0, bridge.FREE, 0, 0, 0, 0, 0]) + b"\x00\x2d\x31\x01\0\0\0\0" + b"\3\0arm"
                + b"\0\0" + b"\0\0" + b"\1\0" + b"\1\0q" + b"\3\0deg" + self.ZEROS * 4 + b"\2\0" + b"\4\0knee"
                + b"\3\0rad" + self.MINUS + self.ONE + self.TWO + self.ZEROS + knee + b"\5\0wheel" + b"\0\0"
                + self.MINUS + self.ONE + self.ZEROS * 2 + wheel)

    def test_is_in_a_welcome_of_version_2(self):
        welcome = self.welcome(2, b"\1\0q" + self.HALF + self.MINUS, b"\0\0" + self.ZEROS * 2)
        self.assertEqual(self.connect(Arm()), (bridge.WELCOME, welcome))

    def test_that_no_action_has_leaves_the_welcome_at_version_1(self):
        arm = Arm()
        arm.spec.action[0] = bridge.Channel("knee", "rad", min=-1, max=1, max_rate=2)
        self.assertEqual(self.connect(arm), (bridge.WELCOME, self.welcome(1, b"", b"")))

    def test_that_a_client_would_refuse_is_refused_here(self):
        for changes, says in (
            ({"measured": "p"}, r"action 'knee': measured by an unknown observation \('p'\)"),
            ({"measured": "knee"}, "unknown observation"),
            ({"measured_scale": math.nan}, "bad measured_scale or measured_offset"),
            ({"measured_scale": 0}, "no scale of 0"),
            ({"measured_offset": math.inf}, "bad measured_scale"),
            ({"measured": ""}, "without measured"),
        ):
            arm = Arm()
            vars(arm.spec.action[0]).update(changes)
            with self.subTest(says), self.assertRaisesRegex(ValueError, says):
                arm.spec.validate()
        arm = Arm()
        arm.spec.obs[0].measured = "q"
        with self.assertRaisesRegex(ValueError, "obs 'q': an observation is not measured by another"):
            arm.spec.validate()

    def test_that_a_position_of_a_real_robot_lacks_is_reported(self):
        def limp(robot):
            robot.spec.action = [
                bridge.Channel("knee", "rad", min=-1, max=1),
                bridge.Channel("wheel", "m/s", min=-1, max=1),
            ]
            return robot

        for robot, reported in ((Arm(), False), (Cart(), False), (limp(Simulated()), False), (limp(Arm()), True)):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), \
                    mock.patch.object(bridge, "_listen", side_effect=ValueError("not now")):
                self.assertRaises(ValueError, bridge.serve, robot, "unix:/nowhere")
            self.assertEqual("no observation measures these positions: knee;" in said.getvalue(), reported)
            self.assertEqual(said.getvalue() != "", reported)


class Filmed(Cart):
    def __init__(self, pictures):
        super().__init__()
        self.pictures = pictures

    def frame(self):
        if not self.pictures:
            raise RuntimeError("the lens is covered")
        return self.pictures.pop(0)


class Frames(unittest.TestCase):
    """The stream of pictures on its socket."""

    def get(self, robot):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = f"{folder.name}/view.sock"
        bridge._serve_frames(robot, path)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(path)
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: s.recv(1 << 16), b""))

    def test_streams_pictures_with_their_times(self):
        before = time.monotonic_ns()
        head, _, body = self.get(Filmed([b"one", b"second"])).partition(b"\r\n\r\n")
        self.assertIn(b"200", head.splitlines()[0])
        self.assertIn(b"multipart/x-mixed-replace; boundary=frame", head)
        self.assertIn(b"Content-Length: 3\r\n", body)
        self.assertLess(body.index(b"one\r\n--frame"), body.index(b"\r\n\r\nsecond\r\n"))
        times = [int(line.split()[1]) for line in body.splitlines() if line.startswith(b"X-Monotonic-Ns")]
        self.assertEqual(len(times), 2)
        self.assertTrue(before <= times[0] < times[1] <= time.monotonic_ns())

    def test_says_why_there_is_no_picture(self):
        answer = self.get(Filmed([]))
        self.assertIn(b"503", answer.splitlines()[0])
        self.assertTrue(answer.endswith(b"\r\n\r\nthe lens is covered"), answer)


if __name__ == "__main__":
    unittest.main()
