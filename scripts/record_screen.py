"""Records the screen of a program as an animated SVG.

    pip install pyte==0.8.2
    python scripts/record_screen.py docs/rover.svg ./optibfm run --seed 5

A block of columns in a row of the screen is a strip of its successive contents, which
CSS moves behind a window. So only changes take space.
"""

import argparse
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from html import escape

import pyte

CELL_W, CELL_H, BLOCK, MARGIN, HOLD = 9, 18, 16, 12, 2  # pixels, pixels, columns, pixels, seconds
INK, GROUND = "#d0d0d0", "#0d1117"
NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
NAMED = dict(zip(NAMES, ("#000", "#cd3131", "#0dbc79", "#e5e510", "#2472c8", "#bc3fbc", "#11a8cd", "#e5e5e5")))
# Thickness of the arms of box-drawing characters in pixels: left, right, up, down.
BOX = {
    "─": (1, 1, 0, 0), "━": (3, 3, 0, 0), "╸": (3, 0, 0, 0), "╺": (0, 3, 0, 0), "│": (0, 0, 1, 1),
    "┼": (1, 1, 1, 1), "╭": (0, 1, 0, 1), "╮": (1, 0, 0, 1), "╰": (0, 1, 1, 0), "╯": (1, 0, 1, 0),
}
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))  # column and row of a braille bit
# Requests for terminal features (CSI with <, = or >; DCS), which pyte would misread.
PRIVATE = re.compile(r"\x1b\[[<=>][0-9;:]*[A-Za-z]|\x1bP[^\x1b]*\x1b\\")


def record(command: list[str], columns: int, rows: int, seconds: float, rate: float) -> list:
    """Returns frames [seconds * rate][rows][columns] of (character, ink, ground, bold)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    screen, decoder = pyte.Screen(columns, rows), codecs.getincrementaldecoder("utf-8")()
    stream, frames, start = pyte.Stream(screen), [], time.monotonic()
    try:
        while len(frames) < seconds * rate:
            wait = max(0, start + len(frames) / rate - time.monotonic())
            if select.select([terminal], [], [], wait)[0]:
                stream.feed(PRIVATE.sub("", decoder.decode(os.read(terminal, 1 << 16))))
            elif frames or any(line.strip() for line in screen.display):
                frames.append([[look(screen.buffer[y][x]) for x in range(columns)] for y in range(rows)])
            else:  # the first frame is not empty
                start = time.monotonic() + 1 / rate
    except OSError as error:
        raise SystemExit(f"record_screen: {command[0]} ended early:\n" + "\n".join(screen.display)) from error
    finally:
        os.kill(pid, signal.SIGINT)
        os.close(terminal)
        os.waitpid(pid, 0)
    return frames


def look(cell: pyte.screens.Char) -> tuple:
    """Returns the character of a cell, its colours as #rrggbb, and whether it is bold."""
    ink, ground = (
        default if name == "default" else NAMED.get(name.removeprefix("bright"), "#" + name)
        for name, default in ((cell.fg, INK), (cell.bg, GROUND))
    )
    return (cell.data, ground, ink, cell.bold) if cell.reverse else (cell.data, ink, ground, cell.bold)


def shape(c: str, x: int, y: int) -> str:
    """Returns the SVG path of a block, box or braille character at pixel (x, y), "" for others."""
    if "▁" <= c <= "█":
        height = CELL_H * (ord(c) - 0x2580) / 8
        return f"M{x} {y + CELL_H - height:g}h{CELL_W}v{height:g}h-{CELL_W}z"
    if "⠀" <= c <= "⣿":
        dots = [dot for bit, dot in enumerate(DOTS) if (ord(c) - 0x2800) >> bit & 1]
        return "".join(f"M{x + 1.5 + 4.5 * i:g} {y + 1.5 + 4.5 * j:g}h2v2h-2z" for i, j in dots)
    left, right, up, down = BOX.get(c, (0, 0, 0, 0))
    path = "".join(f"M{x + a} {y + 9 - t / 2:g}h{n}v{t}h-{n}z" for a, n, t in ((0, 4, left), (4, 5, right)) if t)
    return path + "".join(f"M{x + 4} {y + a}h{t}v9h-{t}z" for a, t in ((0, up), (9, down)) if t)


def draw(cells: tuple, y: int, style: dict[str, str]) -> str:
    """Returns the SVG of cells [n] in a row at height y. style maps CSS rules to class names."""
    paths, texts, end = {}, "", 0
    for i, (_, _, ground, _) in enumerate(cells):
        if ground != GROUND:
            paths[ground] = paths.get(ground, "") + f"M{i * CELL_W} {y}h{CELL_W}v{CELL_H}h-{CELL_W}z"
    for i, (c, ink, ground, bold) in enumerate(cells):
        if d := shape(c, i * CELL_W, y):
            paths[ink] = paths.get(ink, "") + d
        elif i >= end and c != " ":
            end = i + 1
            while c.isascii() and end < len(cells) and "!" <= cells[end][0] <= "~" and cells[end][1:] == cells[i][1:]:
                end += 1
            name = style.setdefault(f"fill:{ink}" + ";font-weight:700" * bold, f"t{len(style)}")
            word = escape("".join(cell[0] for cell in cells[i:end]))
            length = f' textLength="{(end - i) * CELL_W}"' if end > i + 1 else ""
            texts += f'<text class="{name}" x="{i * CELL_W}" y="{y + 13.5:g}"{length}>{word}</text>'
    shapes = ((style.setdefault(f"fill:{colour}", f"t{len(style)}"), d) for colour, d in paths.items())
    return "".join(f'<path class="{name}" d="{d}"/>' for name, d in shapes) + texts


def animate(frames: list, rate: float, title: str) -> str:
    """Returns the SVG of frames, shown rate a second. The last one stays HOLD seconds longer."""
    rows, columns = len(frames[0]), len(frames[0][0])
    width, height = columns * CELL_W + 2 * MARGIN, rows * CELL_H + 2 * MARGIN
    total, css, body, style = len(frames) / rate + HOLD, "", "", {}
    for y, x in ((y, x) for y in range(rows) for x in range(0, columns, BLOCK)):
        contents, keys, name = {}, {}, f"b{y}-{x}"  # contents: number in the strip; keys: that of a frame
        for k, frame in enumerate(frames):
            now = contents.setdefault(tuple(frame[y][x : x + BLOCK]), len(contents))
            if not keys or list(keys.values())[-1] != now:
                keys[k] = now
        steps = (f"{100 * k / rate / total:.2f}%{{transform:translateY({-CELL_H * n}px)}}" for k, n in keys.items())
        css += f"@keyframes {name}{{{''.join(steps)}}}\n#{name}{{animation-name:{name}}}\n" if len(keys) > 1 else ""
        strip = "".join(draw(cells, n * CELL_H, style) for cells, n in contents.items())
        body += (
            f'<svg x="{MARGIN + x * CELL_W}" y="{MARGIN + y * CELL_H}" width="{min(BLOCK, columns - x) * CELL_W}"'
            f' height="{CELL_H}"><g id="{name}">{strip}</g></svg>\n'
        ) if strip else ""
    css += "\n".join(f".{name}{{{rule}}}" for rule, name in style.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"
 role="img" aria-label="{escape(title)}">
<style>text{{font:15px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}
g{{animation:{total:g}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{g{{animation-delay:-{total - HOLD / 2:g}s;animation-play-state:paused}}}}
{css}</style>
<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>
{body}</svg>
"""


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--size", type=int, nargs=2, default=(80, 24), metavar=("COLUMNS", "ROWS"))
    flags.add_argument("--seconds", type=float, default=26, help="length of the recording (default 26)")
    flags.add_argument("--rate", type=float, default=6, help="frames per second (default 6)")
    flags.add_argument("svg", help="file to write")
    flags.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    args = flags.parse_args()
    frames = record(args.command, *args.size, args.seconds, args.rate)
    with open(args.svg, "w", encoding="utf-8") as file:
        file.write(animate(frames, args.rate, "Screen of " + " ".join(args.command)))

