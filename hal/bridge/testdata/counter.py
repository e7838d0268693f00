"""A robot for the tests: it adds up its commands."""

import optibfm_bridge as bridge


class Counter:
    spec = bridge.Spec(
        name="counter", period=0.01,
        obs=[bridge.Channel("seed"), bridge.Channel("sum", "m")],
        action=[bridge.Channel("step", "m", min=-2, max=2)])
    tasks = ["up", "down"]
    task = "up"
    episode_steps = 7

    def __init__(self):
        self.seed, self.sum, self.step, self.time = 0, 0.0, 0.0, 0.0

    def select(self, task):
        if task not in self.tasks:
            raise ValueError(f"no task {task!r}: choose up or down")
        self.task = task

    def sense(self):
        return [self.seed, self.sum], self.time

    def act(self, action):
        self.step = action[0]

    def advance(self):
        self.sum += self.step
        self.time += self.spec.period

    def halt(self):
        self.step = 0.0
        print("halted", flush=True)

    def reset(self, seed):
        if seed == 13:
            raise RuntimeError("13 is unlucky")
        self.seed, self.sum, self.step, self.time = seed, 0.0, 0.0, 0.0

    def reward(self):
        return self.sum if self.task == "up" else -self.sum


bridge.main(Counter())
