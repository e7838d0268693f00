"""Writes messages with their checksums as Unitree's SDK for Python packs them, for the tests of hal/unitree/idl.

    pip install --no-deps unitree-sdk2==1.0.1
    pip install cyclonedds==0.10.2    # Python 3.11: see hal/unitree/TESTING.md
    python3 scripts/unitree_vectors.py > hal/unitree/idl/testdata/sdk.json

Each message has a random value in each member. The output is the C struct that the SDK makes before it computes the
checksum, followed by that checksum.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import struct
import sys
import types
from collections.abc import Iterator
from dataclasses import fields
from typing import Any


def load_sdk() -> tuple[Any, Any]:
    """Returns the modules with the messages and with the checksum, without __init__.py of the SDK: that of 1.0.1
    imports a package which the wheel does not have."""
    spec = importlib.util.find_spec("unitree_sdk2py")
    if spec is None or spec.submodule_search_locations is None:
        sys.exit("pip install --no-deps unitree-sdk2==1.0.1")
    package = types.ModuleType("unitree_sdk2py")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["unitree_sdk2py"] = package
    names = ("unitree_sdk2py.idl.default", "unitree_sdk2py.utils.crc")
    return importlib.import_module(names[0]), importlib.import_module(names[1])


def draw(rng: random.Random, kind: str) -> Any:
    """Returns a random value of a type of IDL."""
    if kind == "float32":
        return struct.unpack("<f", struct.pack("<f", rng.uniform(-10, 10)))[0]
    bits = int("".join(c for c in kind if c.isdigit()))
    if kind.startswith("u"):
        return rng.getrandbits(bits - (bits < 32))  # the SDK packs some bytes and shorts as signed numbers
    return rng.getrandbits(bits) - (1 << (bits - 1))


def fill(rng: random.Random, message: Any) -> None:
    """Gives each member of a message a random value."""
    for f in fields(message):
        value = getattr(message, f.name)
        if isinstance(value, list) and value and hasattr(value[0], "__dataclass_fields__"):
            for element in value:
                fill(rng, element)
        elif hasattr(value, "__dataclass_fields__"):
            fill(rng, value)
        else:
            setattr(message, f.name, values_of(rng, f.type, value))


def values_of(rng: random.Random, annotation: Any, value: Any) -> Any:
    """Returns a random value for an annotation such as types.array[types.float32, 3]."""
    text = str(annotation)
    kinds = ("float32", "uint8", "uint16", "uint32", "int8", "int16", "int32")
    kind = next(k for k in sorted(kinds, key=len, reverse=True) if k in text)
    if isinstance(value, (list, tuple, bytes)):
        return [draw(rng, kind) for _ in value]
    return draw(rng, kind)


def packed(crc: Any, message: Any) -> bytes:
    """Returns the C struct that the SDK makes of a message, without its last word."""
    words: list[int] = []
    original = crc._CRC__Crc32
    crc._CRC__Crc32 = words.extend
    crc.Crc(message)
    crc._CRC__Crc32 = original
    return struct.pack(f"<{len(words)}I", *words)


def vectors() -> Iterator[dict[str, str]]:
    """Yields two messages of each type."""
    messages, checksum = load_sdk()
    checksum.platform.system = lambda: "any"  # the checksum in Python: the wheel of 1.0.1 has no library for it
    rng, crc = random.Random(1), checksum.CRC()
    for family, name in (("go", "LowCmd"), ("go", "LowState"), ("hg", "LowCmd"), ("hg", "LowState")):
        for _ in range(2):
            message = getattr(messages, f"unitree_{family}_msg_dds__{name}_")()
            fill(rng, message)
            memory = packed(crc, message) + struct.pack("<I", crc.Crc(message))
            yield {"type": message.__idl_typename__, "memory": memory.hex()}


if __name__ == "__main__":
    json.dump(list(vectors()), sys.stdout, indent=1)
    print()
