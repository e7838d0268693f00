"""What a picture of dm_control's walker shows: the height and the attitude of its torso, and where on the floor it is.

The camera beside the walker follows it and looks 30° downwards. The sizes below are those that a person would
read off the picture: the tiles of the floor are 1 m long, the torso is 0.6 m long and thicker than the legs.
"""

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


@dataclass
class Sight:
    """What one picture shows."""

    height: float  # of the torso's middle above the floor, m
    upright: float  # cosine of the torso's tilt; -1: head down
    floor: float  # position along the floor, m, modulo 2 m
    fit: float  # of the torso, 0 to 1


def see(picture: Image.Image) -> Sight | None:
    """Returns what a picture shows, or None where it shows no walker."""
    a = np.asarray(picture.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)).astype(int)
    orange = (a[..., 0] - a[..., 2] > 35) & (a[..., 0] > 90)
    parts, n = ndimage.label(orange)
    if n == 0:
        return None
    body = parts == 1 + np.argmax(ndimage.sum(orange, parts, range(1, n + 1)))
    camera = _FAR * np.tan(_below(_floor_edge(a, body)))  # its height, m
    torso = _find_torso(body)
    if torso is None:
        return None
    hip, head, fit = torso
    z = [camera - _NEAR * np.tan(_below(end[1])) for end in (hip, head)]
    x = [(end[0] - WIDTH / 2) / _FOCAL * _depth(end[1]) for end in (hip, head)]
    return Sight((z[0] + z[1]) / 2, (z[1] - z[0]) / np.hypot(x[1] - x[0], z[1] - z[0]), _floor_position(a, camera), fit)


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
    """Returns the pixels (x, y) of the torso's lower and upper end, and how well it fits; None without a torso.

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
    return hip, head, fits(*best[:, None])[0] / _TORSO_RADIUS


def _best(function, points):
    """Returns the point of points [n, k] with the greatest value of the function."""
    return points[np.argmax(function(*points.T))]


def _floor_position(a, camera):
    """Position of the picture's middle on the tiles, m: the phase of their brightness along four lines."""
    x, phase = np.linspace(-1, 1, 81), 0
    for line in (-0.5, -0.35, 0.35, 0.5):  # m beyond the walker
        below = np.arctan(camera / (_NEAR + line))
        row = (HEIGHT - 1) / 2 + _FOCAL * np.tan(below - _PITCH)
        column = (WIDTH - 1) / 2 + x * _FOCAL * np.cos(below) / (_NEAR + line) / np.cos(below - _PITCH)
        seen = (column >= 0) & (column <= WIDTH - 1)
        if not 0 <= row < HEIGHT - 1 or not seen.any():
            continue
        pixels = a[round(row), np.rint(column[seen]).astype(int)]
        floor = pixels[:, 0] < pixels[:, 2]  # not the walker
        if floor.sum() < 20:
            continue
        light = pixels.sum(1) - np.median(pixels[floor].sum(1))
        wave = np.sign(line) * light.clip(-30, 30) * np.exp(-2j * np.pi / _SEAM * x[seen])
        phase += wave[floor].sum()
    return np.angle(phase) / (2 * np.pi) * _SEAM % _SEAM


def speed(times, positions) -> float:
    """Speed in m/s of positions [n] modulo 2 m at times [n] in s, which move less than 1 m from one to the next."""
    path = np.unwrap(positions, period=_SEAM)
    return float(np.polyfit(times, path, 1)[0])
