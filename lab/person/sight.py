"""What a picture of a dm_control robot shows: how high it is, whether it is upright, where on the floor it is.

The camera beside the walker follows it and looks 30° downwards. The sizes below are those that a person would
read off the picture: the tiles of the floor are 1 m long, the torso is 0.6 m long and thicker than the legs. The
cameras beside the cheetahs look at the horizon. The quadruped's torso is its thickest part, its feet are red.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from PIL import Image
from scipy import ndimage

WIDTH, HEIGHT = 320, 240  # pixels
_FOCAL = HEIGHT / 2 / np.tan(np.radians(22.5))  # pixels
_PITCH = np.radians(30)  # of the camera, downwards
_NEAR, _FAR = 2.0, 2.8  # m from the camera to the walker and to the far edge of the floor
_TORSO = 0.3 * _FOCAL / 2.3  # half of its length, pixels
_TORSO_RADIUS, _LEG_RADIUS = 10, 6  # pixels
_SEAM = 2.0  # m, after which the tiles of the floor repeat
_BESIDE, _EDGE = 3.0, 3.8  # m from the camera to the cheetah and to the far edge of the floor
_RUNNER_SEAM = 4 / 3  # m: two tiles of the floor of Gymnasium's cheetah
_DOG_SCALE = HEIGHT / (2 * 1.3 * np.tan(np.radians(22.5))) * np.cos(np.radians(3))  # the same at a Go2's foot
_SCALE = _FOCAL / 5 * np.cos(np.radians(20))  # pixels of a metre of height at the quadruped


@dataclass
class Sight:
    """What one picture shows."""

    height: float = 0.0  # of the torso's middle above the floor, of the quadruped's above its feet, m
    upright: float = 0.0  # cosine of the walker's tilt; -1: head down
    floor: float = 0.0  # position along the floor, m, modulo seam; not of the quadruped
    seam: float = _SEAM  # m
    turn: float = 0.0  # to the left, rad/s, of the Go2
    ground: np.ndarray | None = None  # the floor around the robot from above, NaN where it hides it, of the Go2


def walker(picture: Image.Image) -> Sight | None:
    """Returns what a picture shows, or None where it shows no walker."""
    a = _pixels(picture)
    body = _body(a)
    torso = _find_torso(body)
    if torso is None:
        return None
    camera = _FAR * np.tan(_below(_floor_edge(a, body)))  # its height, m
    hip, head = torso
    z = [camera - _NEAR * np.tan(_below(end[1])) for end in (hip, head)]
    x = [(end[0] - WIDTH / 2) / _FOCAL * _depth(end[1]) for end in (hip, head)]
    return Sight((z[0] + z[1]) / 2, (z[1] - z[0]) / np.hypot(x[1] - x[0], z[1] - z[0]),
                 _floor_position(a, camera, _NEAR, _PITCH))


def cheetah(picture: Image.Image) -> Sight:
    """Returns where on the floor a picture shows the cheetah."""
    a = _pixels(picture)
    red, rows = np.median(a[..., 0], axis=1), range(HEIGHT // 2 + 4, HEIGHT - 25)
    edge = rows[int(np.argmax([np.mean(red[r - 4 : r]) - np.mean(red[r : r + 4]) for r in rows]))]  # the sky is lighter
    return Sight(floor=_floor_position(a, (edge - HEIGHT / 2) / _FOCAL * _EDGE, _BESIDE, 0))


def runner(picture: Image.Image) -> Sight:
    """Returns where on the floor a square picture shows Gymnasium's HalfCheetah, whose camera moves up and down."""
    a = _pixels(picture)
    grey, light = a[..., 0] - a[..., 2] < 20, a.sum(2)
    phase = max((_runner_phase(light, grey, camera) for camera in np.arange(0.4, 1.1, 0.04)), key=abs)
    return Sight(floor=np.angle(phase) / (2 * np.pi) * _RUNNER_SEAM % _RUNNER_SEAM, seam=_RUNNER_SEAM)


def _runner_phase(light, grey, camera):
    """Phase of the tiles along the floor, with the contrast that they have if the camera is so high (m)."""
    x, rows = np.linspace(-0.9, 0.9, 61), np.arange(HEIGHT // 2 + 20, HEIGHT - 2, 3)
    far = _FOCAL * camera / (rows - HEIGHT / 2)  # m
    tile = np.sin(2 * np.pi / _RUNNER_SEAM * (far - _BESIDE))  # dark and light change where it changes its sign
    seen = (far > 2) & (far < 5) & (abs(tile) > 0.3)
    rows, far, tile = rows[seen, None], far[seen, None], tile[seen, None]
    column = np.rint((WIDTH - 1) / 2 + x * WIDTH / HEIGHT * _FOCAL / far).astype(int)
    floor = grey[rows, column.clip(0, WIDTH - 1)] & (column >= 0) & (column < WIDTH)
    light = light[rows, column.clip(0, WIDTH - 1)]
    mean = (light * floor).sum(1, keepdims=True) / np.maximum(floor.sum(1, keepdims=True), 1)
    light = (light - mean).clip(-60, 60) * np.sign(tile)
    return (light * floor * np.exp(-2j * np.pi / _RUNNER_SEAM * x)).sum() / max(floor.sum(), 1)


def quadruped(picture: Image.Image) -> Sight | None:
    """Returns how far below the torso's middle the feet are, on the average, or None where a picture shows none."""
    a = _pixels(picture)
    body = _body(a)
    feet, n = ndimage.label(body & (a[..., 1] < 0.66 * a[..., 0]))
    sizes = ndimage.sum(feet > 0, feet, range(1, n + 1))
    rows = [ndimage.center_of_mass(feet == 1 + k)[0] for k in range(n) if sizes[k] >= 8]
    if not rows:
        return None
    inside = ndimage.distance_transform_edt(body)
    return Sight((np.mean(rows) - np.unravel_index(np.argmax(inside), inside.shape)[0]) / _SCALE)


def pendulum(picture: Image.Image) -> Sight | None:
    """Returns how upright Gymnasium's pendulum is: the cosine of its angle. Its axis is in the middle of a square."""
    a = _pixels(picture)
    y, x = np.nonzero((a[..., 0] - a[..., 1] > 80) & (a[..., 0] - a[..., 2] > 80))  # the rod is red
    if len(x) < 20:
        return None
    up, right = HEIGHT / 2 - y.mean(), (x.mean() - WIDTH / 2) * HEIGHT / WIDTH
    return Sight(upright=up / max(np.hypot(up, right), 1e-9))


def dog(picture: Image.Image) -> Sight | None:
    """Returns how far the three lowest feet of a Go2 are below the middle of a square picture, which follows its trunk.

    upright is 1, or -1 with feet above the trunk. In a grey picture, which says that the episode has ended, both are 0.
    """
    a = _pixels(picture)
    if np.percentile(a[..., 2] - a[..., 0], 99) < 5:  # its metal is blue
        return Sight()
    dark, _ = ndimage.label(a.sum(2) < 360)
    parts = [rows for rows, _ in ndimage.find_objects(dark)]
    parts = [rows for k, rows in enumerate(parts) if (dark == 1 + k).sum() >= 12]
    if not parts:
        return None
    lowest = np.mean(sorted(rows.stop - 1 for rows in parts)[-3:]) - HEIGHT / 2
    highest = HEIGHT / 2 - min(rows.start for rows in parts)
    return Sight(lowest / _DOG_SCALE, 1 if highest < 28 else -1)


def go2(picture: Image.Image) -> Sight:
    """Returns the height of a Go2's trunk, how level it is, and the floor around it, seen from its right side."""
    a = _pixels(picture)
    robot = (a[..., 2] - a[..., 0] > 5) | (a.sum(2) < 240)  # blue metal, black feet
    robot = ndimage.binary_opening(robot, iterations=1)
    ground = np.where(ndimage.binary_dilation(robot, iterations=3), np.nan, a.sum(2))[_GROUND]
    rows, columns = np.nonzero(robot)
    if len(rows) < 100:
        return Sight(ground=ground)
    foot = (np.percentile(rows, 99) - HEIGHT / 2) / (_FOCAL / 1.6)  # below the trunk, m
    return Sight(height=foot, upright=np.ptp(columns) / max(np.ptp(rows), 1), ground=ground)


def _ground_pixels():
    """The pixels (row, column) of the places beside a Go2."""
    down, along = 0.28 + 1.6 * np.sin(_TILT), _AWAY + 1.6 * np.cos(_TILT)  # m, from the camera
    depth = along * np.cos(_TILT) + down * np.sin(_TILT)
    row = HEIGHT / 2 + _FOCAL * (down * np.cos(_TILT) - along * np.sin(_TILT)) / depth
    column = WIDTH / 2 + _FOCAL * _AHEAD / depth
    return np.rint(row).astype(int).clip(0, HEIGHT - 1), np.rint(column).astype(int).clip(0, WIDTH - 1)


_STEP, _TILT = 0.04, np.radians(15)  # m; of the camera beside a Go2, downwards
_AWAY, _AHEAD = np.mgrid[-0.45:1.2:_STEP, -1.0:1.0:_STEP]  # m from its middle: to its left, forwards
_GROUND = _ground_pixels()


def flow(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Returns by how much a robot moved forwards between two pictures of the floor, in m, and turned left, in rad."""
    best = (np.inf, 0, 0)
    for turn, forwards, left in itertools.product(np.arange(-0.24, 0.25, 0.06), range(-5, 6), range(-2, 3)):
        cos, sin = np.cos(turn), np.sin(turn)  # what is at a place now was at the turned and moved place before
        column = np.rint((cos * _AHEAD - sin * _AWAY - _AHEAD[0, 0]) / _STEP + forwards).astype(int)
        row = np.rint((sin * _AHEAD + cos * _AWAY - _AWAY[0, 0]) / _STEP + left).astype(int)
        inside = (row >= 0) & (row < _AWAY.shape[0]) & (column >= 0) & (column < _AWAY.shape[1])
        error = np.abs(after[inside] - before[row[inside], column[inside]])
        score = np.nanmean(error) + 0.5 * (abs(forwards) + abs(left) + abs(turn) / 0.06)  # the least motion of equals
        best = min(best, (score, forwards * _STEP, turn))
    return best[1:]


def motion(times, grounds) -> tuple[float, float]:
    """Returns the speed in m/s and the turn in rad/s of floors seen at times in s, which moved less than 0.2 m."""
    path = np.cumsum([(0, 0), *(flow(a, b) for a, b in itertools.pairwise(grounds))], axis=0)
    return tuple(float(np.polyfit(times, p, 1)[0]) for p in path.T)


def _pixels(picture):
    """Red, green and blue [HEIGHT, WIDTH, 3] of a picture."""
    return np.asarray(picture.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)).astype(int)


def _body(a):
    """The pixels [HEIGHT, WIDTH] of the robot: the largest orange part."""
    orange = (a[..., 0] - a[..., 2] > 35) & (a[..., 0] > 90)
    parts, _ = ndimage.label(orange)
    return orange & (parts == np.argmax(np.bincount(parts[orange], minlength=1)))


def _below(row):
    """Angle of a row of pixels below the horizon."""
    return _PITCH + np.arctan((row - (HEIGHT - 1) / 2) / _FOCAL)


def _depth(row):
    """Distance along the camera's axis of a point of the walker in a row of pixels, m."""
    below = _below(row)
    return _NEAR / np.cos(below) * np.cos(below - _PITCH)


def _floor_edge(a, body):
    """Row of the floor's far edge, where the dark sky ends."""
    blue = np.where(ndimage.binary_dilation(body, iterations=4), np.nan, a[..., 2] - a[..., 0] / 2)
    rows = np.nanmedian(blue, axis=1)
    first, last = 70, 200
    return first + int(np.argmax([np.mean(rows[r : r + 6]) - np.mean(rows[r - 6 : r]) for r in range(first, last)]))


def _find_torso(body):
    """Returns the pixels (x, y) of the torso's lower and upper end, or None without a torso.

    The torso is the straight line of its length which is farthest from the edges of the body.
    """
    inside = np.minimum(ndimage.distance_transform_edt(body), _TORSO_RADIUS)
    y, x = (v[::7].astype(float) for v in np.nonzero(inside > _LEG_RADIUS))
    if len(x) == 0:
        return None
    along = np.linspace(-_TORSO, _TORSO, 17)

    def fits(x, y, angle):
        px = np.rint(x[..., None] + along * np.cos(angle)[..., None]).astype(int)
        py = np.rint(y[..., None] + along * np.sin(angle)[..., None]).astype(int)
        seen = (px >= 0) & (px < WIDTH) & (py >= 0) & (py < HEIGHT)
        return np.where(seen, inside[py.clip(0, HEIGHT - 1), px.clip(0, WIDTH - 1)], 0).mean(-1)

    angles = np.radians(np.arange(0, 180, 6))
    grid = np.stack([g.ravel() for g in np.broadcast_arrays(x[:, None], y[:, None], angles)], 1)
    best, random = _best(fits, grid), np.random.default_rng(0)
    for scale in (4, 2, 1):  # pixels
        near = best + random.normal(size=(300, 3)) * [scale, scale, 0.026 * scale]
        best = _best(fits, np.vstack([best, near]))
    middle, axis = best[:2], np.array([np.cos(best[2]), np.sin(best[2])])
    ends = middle - _TORSO * axis, middle + _TORSO * axis
    points = np.argwhere(body)[:, ::-1]
    offset = np.clip((points - middle) @ axis, -_TORSO, _TORSO)
    legs = points[np.linalg.norm(points - middle - offset[:, None] * axis, axis=1) > 1.3 * _TORSO_RADIUS]
    hip, head = sorted(ends, key=lambda end: -(np.linalg.norm(legs - end, axis=1) < 24).sum())
    return hip, head


def _best(function, points):
    """Returns the point of points [n, k] with the greatest value of the function."""
    return points[np.argmax(function(*points.T))]


def _floor_position(a, camera, near, pitch):
    """Position of the picture's middle on the tiles, m: the phase of their brightness along four lines.

    camera: its height, m. near: m from it to the robot. pitch: downwards, radians.
    """
    x, phase = np.linspace(-1, 1, 81), 0
    for line in (-0.5, -0.35, 0.35, 0.5):  # m beyond the robot
        below = np.arctan(camera / (near + line))
        row = (HEIGHT - 1) / 2 + _FOCAL * np.tan(below - pitch)
        column = (WIDTH - 1) / 2 + x * _FOCAL * np.cos(below) / (near + line) / np.cos(below - pitch)
        seen = (column >= 0) & (column <= WIDTH - 1)
        if not 0 <= row < HEIGHT - 1 or not seen.any():
            continue
        pixels = a[round(row), np.rint(column[seen]).astype(int)]
        floor = pixels[:, 0] < pixels[:, 2]  # not the robot
        if floor.sum() < 20:
            continue
        light = pixels.sum(1) - np.median(pixels[floor].sum(1))
        wave = np.sign(line) * light.clip(-30, 30) * np.exp(-2j * np.pi / _SEAM * x[seen])
        phase += wave[floor].sum()
    return np.angle(phase) / (2 * np.pi) * _SEAM % _SEAM


def speed(times, positions, seam=_SEAM) -> float:
    """Speed in m/s of positions [n] modulo seam at times [n] in s, which move less than half of it between two."""
    path = np.unwrap(positions, period=seam)
    return float(np.polyfit(times, path, 1)[0])
