"""Makes a GIF of a run that was filmed: python -m lab.person.film FOLDER docs/walker.gif

It begins in real time, continues as a time-lapse, and ends in real time. A strip below the page says so, and shows
each press: green for good, orange for bad. It needs ffmpeg and gifsicle.
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
COLOURS = {"good": "#1a9e6e", "bad": "#d9771c"}
GROUND, INK, EMPTY = "#0e1116", "#e8eaed", "#333a45"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.person.film", description=__doc__)
    parser.add_argument("folder", type=Path, help="pictures and presses.jsonl, of --film")
    parser.add_argument("out", type=Path, help="the GIF")
    parser.add_argument("--lapse", type=int, default=8, help="times real time")
    parser.add_argument("--begin", type=float, default=4, help="seconds in real time until the first press and after it")
    parser.add_argument("--end", type=float, nargs=2, default=(2, 8), help="seconds in real time after the last press, from and to")
    parser.add_argument("--width", type=int, default=800, help="pixels")
    parser.add_argument("--colours", type=int, default=64)
    parser.add_argument("--lossy", type=int, default=80, help="of gifsicle")
    o = parser.parse_args()
    presses = [json.loads(line) for line in (o.folder / "presses.jsonl").read_text().splitlines()]
    pages = sorted(o.folder.glob("*.jpg"), key=lambda p: float(p.stem))
    times = [float(p.stem) for p in pages]
    with tempfile.TemporaryDirectory() as folder:
        for k, (at, note) in enumerate(moments(presses[0]["at"], presses[-1]["at"], o.lapse, o.begin, o.end)):
            page = Image.open(pages[max(0, bisect.bisect(times, at) - 1)])
            draw(page, at, note, presses, o.lapse, o.width).save(f"{folder}/{k:05}.png")
        gif = f"{folder}/film.gif"
        palette = f"split[a][b];[a]palettegen=max_colors={o.colours}:stats_mode=full[p];[b][p]paletteuse=dither=none"
        subprocess.run(["ffmpeg", "-v", "error", "-framerate", str(RATE), "-i", f"{folder}/%05d.png", "-vf", palette, gif], check=True)
        subprocess.run(["gifsicle", "-O3", f"--lossy={o.lossy}", "--loopcount", gif, "-o", o.out], check=True)
    print(f"{o.out}: {o.out.stat().st_size / 1e6:.2f} MB, {k + 1} pictures")


def moments(first: float, last: float, lapse: int, begin: float, end: tuple) -> list:
    """Returns the time of each picture, and what the strip says about it."""
    found, at = [], first - begin
    while at < last + end[1]:
        real = at < first + begin or at >= last + end[0]
        found.append((at, "real time" if real else f"{lapse}× time-lapse"))
        at += (1 if real else lapse) / RATE
    return found


def draw(page: Image.Image, at: float, note: str, presses: list, lapse: int, width: int) -> Image.Image:
    """Returns a page with its strip; a ring marks the button of a press of the last moments."""
    page = page.convert("RGB")
    made = [p for p in presses if p["at"] <= at]
    held = 0.6 if note == "real time" else 1.5 * lapse / RATE  # s that a press is marked
    if made and at - made[-1]["at"] < held:
        x, y, w, h = made[-1]["box"]
        ImageDraw.Draw(page).rounded_rectangle((x - 8, y - 8, x + w + 8, y + h + 8), 20, outline="#ffd400", width=8)
    height = round(page.height * width / page.width)
    film = Image.new("RGB", (width, height + STRIP), GROUND)
    film.paste(page.resize((width, height), Image.Resampling.LANCZOS))
    pen, font = ImageDraw.Draw(film), ImageFont.load_default(18)
    middle = height + STRIP / 2
    pen.text((14, middle), note, INK, font, "lm")
    pen.text((width - 14, middle), f"{len(made)} presses", INK, font, "rm")
    left, right = 170, width - 130
    for k in range(len(presses)):
        x = left + (right - left) * k / len(presses)
        colour = COLOURS[made[k]["press"]] if k < len(made) else EMPTY
        pen.rectangle((x, middle - 9, x + (right - left) / len(presses) - 3, middle + 9), fill=colour)
    return film


if __name__ == "__main__":
    main()
