"""The person: python -m lab.person.teacher URL --task walker-walk

It sees the pixels and reads the text of the page, and presses the page's buttons. Nothing else connects it
with the robot.
"""

import argparse
import asyncio
import base64
import contextlib
import io
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.async_api import Error, async_playwright

from . import sight

BUTTONS = ["bad", "rather-bad", "so-so", "rather-good", "good"]
VIEWPORT = {"width": 1000, "height": 640}
QUALITY = 85  # of the page's pictures
SMALLER = 0.75  # their size without a film: fewer pixels take less processor time
WATCHING_S, WAITING_S = 0.1, 0.3  # least time between two of them, with and without a question
AROUND_S = 0.4  # what is watched before and after the marked moment
PASS_S = 1.4  # after which the page repeats the clip of a moment
CONTENT = 5  # good or rather good moments in a row after which the person leaves a robot that says it has learnt
PRESS_S = 0.2  # how long a finger stays on a button
# The place of the picture of the moment that the page asks about, null without a question.
OPEN_QUESTION = """() => {
  const clip = document.querySelector('#moment'), r = clip.getBoundingClientRect();
  return document.querySelector('#question').innerText.startsWith('How was it') && clip.checkVisibility()
    ? [r.x, r.y, r.width, r.height] : null;
}"""


def ramp(x: float, low: float, high: float) -> float:
    """0 up to low, 1 from high on, and in between in proportion."""
    return min(max((x - low) / (high - low), 0), 1)


def walks(stands: float, pace: float) -> float:
    """The opinion of a robot that ought to walk: a quarter for standing, the rest for the pace."""
    return stands * (0.25 + 0.75 * pace)


def walker_stands(pose: sight.Sight, _: float = 0) -> float:
    """The walker stands."""
    return min(ramp(pose.height, 0.3, 0.95), ramp(pose.upright, -0.2, 0.65))


def walker_walks(pose: sight.Sight, speed: float) -> float:
    """The walker is up and goes forwards at about a metre a second: it does not run."""
    return walks(walker_stands(pose), min(ramp(speed, 0, 1), ramp(-speed, -3, -2)))


def quadruped_stands(pose: sight.Sight, _: float) -> float:
    """The quadruped's feet are below its torso. On its side is a little better than on its back."""
    return ramp(pose.height, -0.15, 0.27)


def cheetah_walks(_: sight.Sight, speed: float) -> float:
    """The cheetah goes forwards, but does not run."""
    return min(ramp(speed, -0.5, 1.5), ramp(-speed, -5, -4))


def pendulum_stands(pose: sight.Sight, _: float) -> float:
    """The pendulum is within 60° of upright."""
    return ramp(pose.upright, -1, 0.7)


def runner_runs(_: sight.Sight, speed: float) -> float:
    """Gymnasium's HalfCheetah goes forwards."""
    return ramp(speed, -0.4, 0.5)


def dog_crouches(pose: sight.Sight, _: float) -> float:
    """The Go2's feet are near its trunk, but below it: it does not lie."""
    return ramp(pose.upright, 0, 1) * min(ramp(pose.height, 0.08, 0.125), ramp(-pose.height, -0.25, -0.2))


def go2_on_feet(pose: sight.Sight, low: float) -> float:
    """The Go2's trunk is level, at least so high (m) above its feet and not higher than its legs are long."""
    return min(ramp(pose.upright, 0.9, 1.2), ramp(pose.height, low - 0.1, low), ramp(-pose.height, -0.4, -0.34))


def go2_walks(pose: sight.Sight, speed: float) -> float:
    """The Go2 walks ahead on its feet without a turn."""
    pace = min(ramp(speed, 0, 0.45), ramp(-speed, -1.2, -0.85), ramp(-abs(pose.turn), -1, -0.45))
    return walks(go2_on_feet(pose, 0.2), pace)


def go2_stands(pose: sight.Sight, speed: float) -> float:
    """The Go2 stands on its feet and does not move."""
    return min(go2_on_feet(pose, 0.24), ramp(-abs(speed), -0.6, -0.1), ramp(-abs(pose.turn), -1.2, -0.2))


# What the person looks at, and how good it finds that, from 0 to 1. A name is that of the robot, then that of
# the task of its simulator.
TASKS = {"walker-walk": (sight.walker, walker_walks), "walker-stand": (sight.walker, walker_stands),
         "quadruped-stand": (sight.quadruped, quadruped_stands), "cheetah-walk": (sight.cheetah, cheetah_walks),
         "go2-sim-stand": (sight.go2, go2_stands), "go2-sim-walk_forward": (sight.go2, go2_walks),
         "go2-stand": (sight.go2, go2_stands), "go2-walk_forward": (sight.go2, go2_walks)}
# The same for robots without a configuration in the program.
OTHERS = {"dog-crouch": (sight.dog, dog_crouches), "pendulum-up": (sight.pendulum, pendulum_stands),
          "runner-run": (sight.runner, runner_runs)}
SQUARE = (sight.dog, sight.pendulum, sight.runner)  # whose pictures are square
SEEN = TASKS | OTHERS


@dataclass
class Person:
    """A person before the page."""

    page: object  # of Playwright
    task: str
    film: Path | None = None  # folder for pictures of the page
    frames: list = field(default_factory=list)  # newest pictures of the page: time in s, JPEG
    presses: int = 0
    watching: bool = False
    opinion: dict = field(default_factory=dict)  # what the last judgement saw

    async def open_eyes(self) -> None:
        """Receives the pictures that the browser shows, as long as the page lives."""
        screen = await self.page.context.new_cdp_session(self.page)

        async def receive(e):
            at, jpeg = e["metadata"]["timestamp"], base64.b64decode(e["data"])
            self.frames = [*self.frames[-60:], (at, jpeg)]
            if self.film:
                (self.film / f"{at:.3f}.jpg").write_bytes(jpeg)
            await asyncio.sleep(WATCHING_S if self.watching else WAITING_S)
            with contextlib.suppress(Error):  # the page is closed
                await screen.send("Page.screencastFrameAck", {"sessionId": e["sessionId"]})

        screen.on("Page.screencastFrame", lambda e: asyncio.ensure_future(receive(e)))
        await screen.send("Page.startScreencast", {"format": "jpeg", "quality": QUALITY})

    async def begin(self) -> None:
        """Starts a robot that waits for the first press. Later presses are labels."""
        while await self.page.locator("#armed").inner_text() != "armed":
            waits = "first press" in await self.page.locator("#task").inner_text()
            if waits and (box := await self.page.locator("#good").bounding_box()):
                await self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            await asyncio.sleep(2)

    async def teach(self, presses: int, seconds: float) -> None:
        """Answers questions until the robot has learnt, or after that many presses, or when the time is over."""
        end, content = time.monotonic() + seconds, 0
        while self.presses < presses and time.monotonic() < end and content < CONTENT:
            if "The run is over" in await self.page.locator("#question").inner_text():
                raise SystemExit("the run ended: " + await self.page.locator("#banner").inner_text())
            box = await self.page.evaluate(OPEN_QUESTION)
            self.watching, button = bool(box), ""
            if box:
                button = await self.answer(box)
            elif "seems to have learnt" in await self.page.locator("#learnt").inner_text():
                button = await self.watch_live()
                content = content + 1 if button in BUTTONS[3:] else 0
            if button in BUTTONS[:3] or button and box:
                await self.press(button)
            await asyncio.sleep(0.1)

    async def answer(self, box: list) -> str:
        """Watches the moment of the question; returns the button to press, "" if the question closed."""
        since, seen = time.time(), {}
        while await self.page.evaluate(OPEN_QUESTION):
            for at, page in self.pictures(max(seen, default=since)):
                seen[at] = self.marked(page, box), self.look(page, box)
            if button := self.judge_clip(seen):
                return button
            await asyncio.sleep(0.05)
        return ""

    async def watch_live(self) -> str:
        """Watches the live picture; returns the button that is right for it, "" if too little is seen."""
        self.watching, since = True, time.time()
        await asyncio.sleep(3 * AROUND_S)
        x, y, w, h = (await self.page.locator("#picture").bounding_box()).values()
        seen = {at: self.look(page, [x, y, w, h]) for at, page in self.pictures(since)}
        return self.judge({at: pose for at, pose in seen.items() if pose}, since + 2 * AROUND_S)

    def pictures(self, since: float) -> list:
        """Times and pictures of the page after a time."""
        return [(at, Image.open(io.BytesIO(jpeg)).convert("RGB")) for at, jpeg in self.frames if at > since]

    def marked(self, page: Image.Image, box: list) -> bool:
        """Whether the frame around a clip is amber: it shows the moment of the question."""
        left, top, _, height = scaled(box, page)
        red, _, blue = page.getpixel((round(left) - 1, round(top + height / 2)))
        return red > blue

    def look(self, page: Image.Image, box: list) -> sight.Sight | None:
        """What a box of the page shows."""
        left, top, width, height = scaled(box, page)
        see, _ = SEEN[self.task]
        shape = (1, 1) if see in SQUARE else (sight.WIDTH, sight.HEIGHT)
        scale = min(width / shape[0], height / shape[1])  # the picture keeps its shape
        w, h = shape[0] * scale, shape[1] * scale
        x, y = left + (width - w) / 2, top + (height - h) / 2
        return see(page.crop((round(x), round(y), round(x + w), round(y + h))))

    def judge_clip(self, seen: dict) -> str:
        """Returns the button for a clip, of which pictures (marked, pose) were seen at times in s; "" to watch on."""
        turns = [2j * np.pi * t / PASS_S for t, (marked, pose) in seen.items() if marked and pose]
        if not turns:
            return ""
        moment = np.angle(np.sum(np.exp(turns))) / (2 * np.pi) * PASS_S
        passes = {(t - moment + PASS_S / 2) % PASS_S - PASS_S / 2: pose for t, (_, pose) in seen.items() if pose}
        return self.judge(passes, 0)

    def judge(self, poses: dict, moment: float) -> str:
        """Returns the button for a moment between poses at times in s, "" if too few of them were seen."""
        near = sorted(t for t in poses if abs(t - moment) <= AROUND_S)
        if len(near) < 5 or near[-1] - near[0] < 1.5 * AROUND_S or max(np.diff(near)) > AROUND_S / 2:
            return ""
        pose = poses[min(near, key=lambda t: abs(t - moment))]
        if pose.ground is None:
            speed = sight.speed(near, [poses[t].floor for t in near], pose.seam)
        else:
            speed, pose.turn = sight.motion(near, [poses[t].ground for t in near])
        _, opinion = SEEN[self.task]
        button = BUTTONS[round(4 * opinion(pose, speed))]
        self.opinion = {"height": pose.height, "upright": pose.upright, "turn": pose.turn, "speed": speed}
        return button

    async def press(self, button: str) -> None:
        """Presses a button, and prints when, which and why."""
        box = await self.page.locator(f"#{button}").bounding_box()
        await self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        await self.page.mouse.down()
        at = time.time()
        await asyncio.sleep(PRESS_S)
        await self.page.mouse.up()
        self.presses += 1
        seen = {name: round(float(value), 3) for name, value in self.opinion.items()}
        made = json.dumps({"at": round(at, 3), "press": button, "box": list(box.values()), **seen})
        print(made, flush=True)
        if self.film:
            with (self.film / "presses.jsonl").open("a") as f:
                f.write(made + "\n")


def scaled(box: list, page: Image.Image) -> list:
    """Returns a box of the page in pixels of its picture."""
    return [v * page.width / VIEWPORT["width"] for v in box]


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.person.teacher", description=__doc__)
    parser.add_argument("url", help="address of the console, with its code")
    parser.add_argument("--task", choices=SEEN, default="walker-walk")
    parser.add_argument("--presses", type=int, default=90, help="at most this many")
    parser.add_argument("--seconds", type=float, default=600, help="at most this long")
    parser.add_argument("--stay", type=float, default=0, help="seconds to watch after the last press")
    parser.add_argument("--film", type=Path, help="folder for pictures of the page")
    parser.add_argument("--browser", default="/usr/bin/chromium", help="program of the browser")
    o = parser.parse_args()
    if o.film:
        o.film.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as p:
        browser = await p.chromium.launch(executable_path=o.browser, args=["--no-sandbox", "--disable-gpu"])
        page = await browser.new_page(viewport=VIEWPORT, reduced_motion="reduce",
                                      device_scale_factor=1 if o.film else SMALLER)
        person = Person(page, o.task, o.film)
        await person.page.goto(o.url)
        await person.begin()
        await person.open_eyes()
        await person.teach(o.presses, o.seconds)
        person.watching = True
        await asyncio.sleep(o.stay)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
