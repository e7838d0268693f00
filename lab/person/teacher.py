"""The person: python -m lab.person.teacher URL --task walk

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

VIEWPORT = {"width": 1000, "height": 640}
QUALITY = 85  # of the page's pictures
FRAME_S = 0.06  # least time between two of them
AROUND_S = 0.4  # what is watched before and after the marked moment
PRESS_S = 0.2  # how long a finger stays on a button
# Where the page shows the moment of an open question, null without one.
QUESTION = """() => {
  const clip = document.querySelector('#moment'), r = clip.getBoundingClientRect();
  return document.querySelector('#request').dataset.open === 'true' && clip.checkVisibility()
    ? [r.x, r.y, r.width, r.height] : null;
}"""


def wants_walk(pose: sight.Sight, speed: float) -> bool:
    """Whether the walker stands and walks forwards at half a metre a second or faster."""
    return wants_stand(pose, speed) and speed > 0.5


def wants_stand(pose: sight.Sight, _: float) -> bool:
    """Whether the walker stands."""
    return pose.height > 0.9 and pose.upright > 0.6


TASKS = {"walk": wants_walk, "stand": wants_stand}


@dataclass
class Person:
    """A person before the page."""

    page: object  # of Playwright
    task: str
    film: Path | None = None  # folder for pictures of the page
    frames: list = field(default_factory=list)  # newest pictures of the page: time in s, JPEG
    presses: int = 0

    async def open_eyes(self) -> None:
        """Receives the pictures that the browser shows, as long as the page lives."""
        screen = await self.page.context.new_cdp_session(self.page)

        async def receive(e):
            at, jpeg = e["metadata"]["timestamp"], base64.b64decode(e["data"])
            self.frames = [*self.frames[-60:], (at, jpeg)]
            if self.film:
                (self.film / f"{at:.3f}.jpg").write_bytes(jpeg)
            await asyncio.sleep(FRAME_S)
            with contextlib.suppress(Error):  # the page is closed
                await screen.send("Page.screencastFrameAck", {"sessionId": e["sessionId"]})

        screen.on("Page.screencastFrame", lambda e: asyncio.ensure_future(receive(e)))
        await screen.send("Page.startScreencast", {"format": "jpeg", "quality": QUALITY})

    async def teach(self, presses: int, seconds: float) -> None:
        """Answers the page's questions until it made that many presses or the time is over."""
        end = time.monotonic() + seconds
        while self.presses < presses and time.monotonic() < end:
            answer = await self.answer()
            if answer:
                await self.press(answer)
                await asyncio.sleep(0.5)
            else:
                await asyncio.sleep(0.05)

    async def answer(self) -> str:
        """Watches the moment of the question; returns the button to press, "" if the question closed."""
        since, seen = time.time(), {}
        while box := await self.page.evaluate(QUESTION):
            for at, jpeg in list(self.frames):
                if at > max(seen, default=since):
                    seen[at] = self.look(jpeg, box)
            verdict = self.judge(seen)
            if verdict:
                return verdict if await self.page.evaluate(QUESTION) else ""
            await asyncio.sleep(0.05)
        return ""

    def look(self, jpeg: bytes, box: list) -> tuple[bool, sight.Sight | None]:
        """Whether the moment is marked in a picture of the page, and what its clip shows."""
        page = Image.open(io.BytesIO(jpeg)).convert("RGB")
        left, top, width, height = box
        red, _, blue = page.getpixel((round(left) - 1, round(top + height / 2)))  # the frame around the clip
        scale = min(width / sight.WIDTH, height / sight.HEIGHT)  # the picture keeps its shape
        w, h = sight.WIDTH * scale, sight.HEIGHT * scale
        x, y = left + (width - w) / 2, top + (height - h) / 2
        return red > blue, sight.see(page.crop((round(x), round(y), round(x + w), round(y + h))))

    def judge(self, seen: dict) -> str:
        """Returns the button for a clip, of which pictures were seen at times in s; "" to watch on."""
        times = sorted(seen)
        marked = [t for t in times if seen[t][0] and seen[t][1]]
        for first in marked:
            mark = [t for t in marked if first <= t < first + 0.3]
            middle = float(np.mean(mark))
            near = [t for t in times if abs(t - middle) <= AROUND_S and seen[t][1]]
            if times[-1] < middle + AROUND_S or len(near) < 5 or near[-1] - near[0] < AROUND_S:
                continue
            pose = seen[min(mark, key=lambda t: abs(t - middle))][1]
            speed = sight.speed(near, [seen[t][1].floor for t in near])
            good = TASKS[self.task](pose, speed)
            print(json.dumps({"at": time.time(), "height": round(pose.height, 3), "upright": round(pose.upright, 3),
                              "speed": round(speed, 3), "frames": len(near), "press": "good" if good else "bad"}), flush=True)
            return "good" if good else "bad"
        return ""

    async def press(self, button: str) -> None:
        box = await self.page.locator(f"#{button}").bounding_box()
        await self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        await self.page.mouse.down()
        await asyncio.sleep(PRESS_S)
        await self.page.mouse.up()
        self.presses += 1


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.person.teacher", description=__doc__)
    parser.add_argument("url", help="address of the console, with its code")
    parser.add_argument("--task", choices=TASKS, default="walk")
    parser.add_argument("--presses", type=int, default=60, help="at most this many")
    parser.add_argument("--seconds", type=float, default=600, help="at most this long")
    parser.add_argument("--stay", type=float, default=0, help="seconds to watch after the last press")
    parser.add_argument("--film", type=Path, help="folder for pictures of the page")
    parser.add_argument("--browser", default="chromium", help="program of the browser")
    o = parser.parse_args()
    if o.film:
        o.film.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as p:
        browser = await p.chromium.launch(executable_path=o.browser, args=["--no-sandbox"])
        person = Person(await browser.new_page(viewport=VIEWPORT, reduced_motion="reduce"), o.task, o.film)
        await person.page.goto(o.url)
        await person.open_eyes()
        await person.teach(o.presses, o.seconds)
        await asyncio.sleep(o.stay)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
