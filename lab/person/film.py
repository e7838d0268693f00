"""Makes a GIF of a run that was filmed: python -m lab.person.film FOLDER docs/quadruped.gif

It begins in real time, continues as a time-lapse, and ends with the run after, in which the robot does what
it learnt, in real time. A strip below the page says so, and shows each press: from orange for bad to green for
good. It needs ffmpeg and gifsicle.
"""

import argparse
import bisect
import json
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

RATE = 8  # pictures a second
STRIP = 44  # pixels
COLOURS = {"bad": "#d9771c", "rather-bad": "#dba77a", "so-so": "#8d96a3", "rather-good": "#7fc4a9", "good": "#1a9e6e"}
REAL, LEARNT = "real time", "learnt, real time"
GROUND, INK, EMPTY = "#0e1116", "#e8eaed", "#333a45"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.person.film", description=__doc__)
    parser.add_argument("folder", type=Path, help="pictures and presses.jsonl, of --film")
    parser.add_argument("out", type=Path, help="the GIF")
    parser.add_argument("--lapse", type=int, default=16, help="times real time")
    parser.add_argument("--begin", type=float, default=4, help="seconds in real time before and after the first press")
    parser.add_argument("--learnt", type=float, nargs=2, default=(10, 18), help="seconds of the run after, from and to")
    parser.add_argument("--width", type=int, default=640, help="pixels")
    parser.add_argument("--colours", type=int, default=48)
    parser.add_argument("--lossy", type=int, default=140, help="of gifsicle")
    o = parser.parse_args()
    presses = [json.loads(line) for line in (o.folder / "presses.jsonl").read_text().splitlines()]
    shots = moments(presses[0]["at"], presses[-1]["at"] + 2, o.lapse, o.begin)
    first = Pages(o.folder / "learnt").times[0]
    shots += [(first + o.learnt[0] + k / RATE, LEARNT) for k in range(round((o.learnt[1] - o.learnt[0]) * RATE))]
    taught, after = Pages(o.folder), Pages(o.folder / "learnt")
    with tempfile.TemporaryDirectory() as folder:
        for k, (at, note) in enumerate(shots):
            page = (after if note == LEARNT else taught).at(at)
            draw(page, at, note, presses, o.lapse, o.width).save(f"{folder}/{k:05}.png")
        gif = f"{folder}/film.gif"
        palette = f"split[a][b];[a]palettegen=max_colors={o.colours}:stats_mode=full[p];[b][p]paletteuse=dither=none"
        subprocess.run(["ffmpeg", "-v", "error", "-framerate", str(RATE), "-i", f"{folder}/%05d.png",
                        "-vf", palette, gif], check=True)
        subprocess.run(["gifsicle", "-O3", f"--lossy={o.lossy}", "--loopcount", gif, "-o", o.out], check=True)
    print(f"{o.out}: {o.out.stat().st_size / 1e6:.2f} MB, {len(shots)} pictures")


class Pages:
    """The pictures of a folder. Their names are their times in s."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.jpg"), key=lambda p: float(p.stem))
        self.times = [float(p.stem) for p in self.paths]

    def at(self, time: float) -> Image.Image:
        """Returns the page that the browser showed at a time."""
        return Image.open(self.paths[max(0, bisect.bisect(self.times, time) - 1)])


def moments(first: float, end: float, lapse: int, begin: float) -> list:
    """Returns the time of each picture from the first press to the end, and what the strip says about it."""
    found, at = [], first - begin
    while at < end:
        real = at < first + begin
        found.append((at, REAL if real else f"{lapse}x time-lapse"))
        at += (1 if real else lapse) / RATE
    return found


def draw(page: Image.Image, at: float, note: str, presses: list, lapse: int, width: int) -> Image.Image:
    """Returns a page with its strip; a ring marks the button of a press of the last moments."""
    page = page.convert("RGB")
    made = [p for p in presses if p["at"] <= at]
    held = 0.6 if note == REAL else 1.5 * lapse / RATE  # s that a press is marked
    if made and at - made[-1]["at"] < held:
        x, y, w, h = made[-1]["box"]
        ImageDraw.Draw(page).rounded_rectangle((x - 8, y - 8, x + w + 8, y + h + 8), 20, outline="#ffd400", width=8)
    height = round(page.height * width / page.width)
    film = Image.new("RGB", (width, height + STRIP), GROUND)
    film.paste(page.resize((width, height), Image.Resampling.LANCZOS))
    pen, font = ImageDraw.Draw(film), ImageFont.load_default(18)
    middle = height + STRIP / 2
    pen.text((14, middle), note, INK, font, "lm")
    pen.text((width - 14, middle), f"{len(made)} {'press' if len(made) == 1 else 'presses'}", INK, font, "rm")
    left, right = 170, width - 130
    for k in range(len(presses)):
        x = left + (right - left) * k / len(presses)
        colour = COLOURS[made[k]["press"]] if k < len(made) else EMPTY
        pen.rectangle((x, middle - 9, x + (right - left) / len(presses) - 3, middle + 9), fill=colour)
    return film


if __name__ == "__main__":
    main()
