"""Tests of gymnasium_bridge.py: python -m unittest discover scripts (needs gymnasium and mujoco)."""

import contextlib
import io
import json
import os
import sys
import threading
import types
import typing
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("MUJOCO_GL", "disable")  # the libraries of EGL and of triton do not load into one process
try:
    import gymnasium
    import gymnasium_bridge
    import mujoco  # noqa: F401
    import numpy as np
    from gymnasium import spaces
    from PIL import Image
except ImportError as err:
    raise unittest.SkipTest(f"gymnasium_bridge needs scripts/requirements.txt: {err}") from err


def simulator(env_id, **kwargs):
    env = gymnasium_bridge.make(env_id, **kwargs)
    return gymnasium_bridge.Simulator(env, env_id, gymnasium_bridge.period_of(env))


class Countdown(gymnasium.Env):
    """Ends after three steps."""

    metadata: typing.ClassVar = {"render_modes": ["rgb_array"], "render_fps": 2}
    observation_space = spaces.Dict({
        "left": spaces.Box(-9, 9, (), np.float32), "at": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))])})
    action_space = spaces.Box(np.array([0, -4], np.float32), np.array([10, 0], np.float32))

    def __init__(self, render_mode=None, first=3):
        self.render_mode, self.first, self.taken = render_mode, first, []

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.first
        return self.observe(), {}

    def observe(self):
        return {"left": np.float32(self.left), "at": (self.left % 3, np.array([0.5, -0.5], np.float32))}

    def step(self, action):
        assert self.left > 0, "a step after the end"
        self.taken.append(action.tolist())
        self.left -= 1
        return self.observe(), 1.0, self.left == 0, False, {}

    def render(self):
        return np.full((4, 6, 3), self.left, np.uint8)


class ASimulator(unittest.TestCase):
    def test_gives_what_gymnasium_gives(self):
        for env_id in ("Pendulum-v1", "HalfCheetah-v5"):
            with self.subTest(env_id):
                robot, reference = simulator(env_id), gymnasium.make(env_id)
                robot.spec.validate()
                obs, _ = reference.reset(seed=7)
                robot.reset(7)
                rng = np.random.default_rng(0)
                box = reference.action_space
                for step in range(30):
                    np.testing.assert_array_equal(robot.sense()[0], obs)
                    self.assertAlmostEqual(robot.sense()[1], step * robot.spec.period)
                    action = rng.uniform(-1, 1, box.shape)
                    obs, reward, *_ = reference.step(box.low.astype(float) + (action + 1) / 2 * (box.high - box.low))
                    robot.act(tuple(action))
                    robot.advance()
                    self.assertAlmostEqual(robot.reward(), float(reward), places=9)

    def test_a_seed_gives_the_same_episode_whatever_came_before(self):
        robot = simulator("Pendulum-v1")
        first = (robot.reset(2**63 + 5), robot.sense())
        robot.reset(4)
        self.assertNotEqual(robot.sense(), first[1])
        robot.advance()
        robot.reset(2**63 + 5)
        self.assertEqual(robot.sense(), first[1])

    def test_has_its_period_from_the_environment(self):
        self.assertEqual(simulator("Pendulum-v1").spec.period, 0.05)  # dt, although it renders 30 pictures a second
        self.assertEqual(simulator("MountainCarContinuous-v0").spec.period, 1 / 30)
        with self.assertRaisesRegex(ValueError, "--period"):
            env = Countdown()
            env.metadata, env.spec = {}, types.SimpleNamespace(id="Countdown")
            gymnasium_bridge.period_of(env)


class AnEnvironmentOfItsOwn(unittest.TestCase):
    def make(self, **kwargs):
        env = gymnasium_bridge.make(f"{__name__}:Countdown", **kwargs)
        return gymnasium_bridge.Simulator(env, "countdown", 0.5), env.unwrapped

    @staticmethod
    def left(robot):
        return robot.sense()[0][[c.name for c in robot.spec.obs].index("left")]

    def test_is_found_by_module_and_class(self):
        robot, env = self.make(first=5)
        self.assertEqual((env.first, self.left(robot)), (5, 5))

    def test_flattens_dictionaries_and_names_their_parts(self):
        robot, _ = self.make()
        self.assertEqual(dict(zip([c.name for c in robot.spec.obs], robot.sense()[0])),
                         {"left": 3, "at.0.0": 1, "at.0.1": 0, "at.0.2": 0, "at.1.0": 0.5, "at.1.1": -0.5})

    def test_scales_actions_to_their_range(self):
        robot, env = self.make()
        for action in ((-1, 1), (1, -1), (0, 0.5)):
            robot.act(action)
            robot.advance()
        self.assertEqual(env.taken, [[0, 0], [10, -4], [5, -1]])

    def test_that_has_ended_stays_until_the_reset(self):
        robot, _ = self.make()
        rewards = []
        for _ in range(20):
            robot.advance()
            rewards.append(robot.reward())
        self.assertEqual((rewards, self.left(robot)), ([1] * 3 + [0] * 17, 0))
        robot.reset(1)
        self.assertEqual(self.left(robot), 3)

    def test_that_has_ended_begins_again_after_a_second_in_free_mode(self):
        robot, _ = self.make()
        robot.free = True
        left = []
        for _ in range(7):
            robot.advance()
            left.append(self.left(robot))
        self.assertEqual(left, [2, 1, 0, 0, 3, 2, 1])

    def test_begins_again_after_its_time_limit_in_free_mode(self):
        for free, expected in {False: [8, 7, 6, 5, 4], True: [8, 7, 9, 8, 7]}.items():
            robot = gymnasium_bridge.Simulator(gymnasium_bridge.make(f"{__name__}:Countdown", first=9), "name", 0.5,
                                               limit=3)
            robot.free, left = free, []
            for _ in expected:
                robot.advance()
                left.append(self.left(robot))
            self.assertEqual((left, robot.episode_steps), (expected, 3))

    def test_shows_pictures_of_the_state_after_the_request(self):
        robot, _ = self.make()
        pictures = []
        viewer = threading.Thread(target=lambda: pictures.append(robot.frame()))
        viewer.start()
        while viewer.is_alive() and not robot._pictures._wanted.is_set():
            viewer.join(0.01)
        robot.advance()
        viewer.join(10)
        self.assertEqual(Image.open(io.BytesIO(pictures[0])).getpixel((0, 0)), (2, 2, 2))

    def test_is_pictured_in_grey_after_its_end(self):
        robot, env = self.make()
        env.render = lambda: np.full((4, 6, 3), (200, 0, 0), np.uint8)
        for left, mode in ((2, "RGB"), (1, "RGB"), (0, "L")):
            threading.Timer(0.2, robot.advance).start()
            picture = Image.open(io.BytesIO(robot.frame()))
            self.assertEqual((self.left(robot), picture.mode), (left, mode))

    def test_reports_a_renderer_that_fails(self):
        robot, env = self.make()
        env.render = lambda: 1 / 0
        with self.assertRaisesRegex(RuntimeError, "stands still|cannot render"):
            threading.Timer(0.2, robot.advance).start()
            robot.frame()


class ASimulationOfMuJoCo(unittest.TestCase):
    def picture(self, robot, x):
        robot.env.unwrapped.data.qpos[0] = x
        return np.asarray(Image.open(io.BytesIO(robot.frame()))).astype(int)

    def test_is_pictured_while_it_stands_still(self):
        robot = simulator("HalfCheetah-v5", width=400, height=200)
        first, moved = self.picture(robot, 0), self.picture(robot, 1 / 3)
        self.assertEqual(first.shape, (160, 320, 3))
        self.assertGreater(abs(first - moved).mean(), 5)  # other tiles

    def test_never_leaves_the_picture_or_the_floor(self):
        robot = simulator("HalfCheetah-v5")
        tiles = 2 * 40 / 60  # m after which they repeat, in half_cheetah.xml
        first, far = self.picture(robot, 0), self.picture(robot, 301 * tiles)  # the floor ends at 40 m
        self.assertLess(abs(first - far).mean(), 2)

    def test_is_seen_by_the_chosen_camera(self):
        for kwargs, camera in (({}, "track"), ({"camera_name": "track"}, {"type": 2, "fixedcamid": 0}),
                               ({"default_camera_config": {"trackbodyid": 0, "lookat": np.array([1.0, 2, 3])}},
                                {"trackbodyid": 0, "lookat": [1, 2, 3]})):
            renderer = gymnasium_bridge.make("HalfCheetah-v5", **kwargs).unwrapped.mujoco_renderer
            self.assertEqual(gymnasium_bridge._camera(renderer), camera)


class Plain(Countdown):
    """Cannot render, and does not know that one could."""

    def __init__(self):
        super().__init__()


class Outdated(Plain):
    """Follows Gym's interface of before 2022."""

    def reset(self, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0]


class AnUnsuitableEnvironment(unittest.TestCase):
    def test_without_pictures_is_served(self):
        robot = simulator(f"{__name__}:Plain")
        robot.advance()
        with self.assertRaisesRegex(RuntimeError, "no rgb_array pictures"):
            robot.frame()

    def test_with_a_reset_of_an_earlier_interface_is_refused(self):
        with self.assertRaisesRegex(ValueError, "wrap it"):
            simulator(f"{__name__}:Outdated")

    def test_is_refused_with_the_reason(self):
        for env_id, reason in {
            "CartPole-v1": "only a bounded Box",
            "Nope-v3": "Nope-v3.*doesn't exist",
            "nomodule:Class": "No module named",
            "json:Nothing": "json:Nothing",
        }.items():
            with self.subTest(env_id), self.assertRaisesRegex(ValueError, reason):
                simulator(env_id)
        with self.assertRaisesRegex(ValueError, "unexpected keyword"):
            simulator("Pendulum-v1", **json.loads('{"nonsense": 1}'))

    def test_with_an_impossible_period_is_refused(self):
        for period in ("0", "-1", "inf", "nan", "fast"):
            with self.subTest(period), self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as err:
                gymnasium_bridge._parser().parse_args(["Pendulum-v1", "--period", period])
            self.assertIn("--period", err.getvalue())

    def test_a_task_that_it_lacks_is_refused(self):
        with self.assertRaisesRegex(ValueError, "choose one of reward"):
            simulator("Pendulum-v1").select("walk")


if __name__ == "__main__":
    unittest.main()
