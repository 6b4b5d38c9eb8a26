"""Pictures of all formats, and what Pillow makes of them."""
import struct
from pathlib import Path

import numpy as np

from case import Case

DATA = Path(__file__).resolve().parent / "data" / "images.npz"
GREY = b"".join(bytes([i, i, i, 0]) for i in range(256))


def picture(data, pixels, pixel_format="RGB", note=""):
    pixels = np.asarray(pixels, np.uint8)
    if pixel_format == "BGR":
        pixels = pixels[..., ::-1]
    elif pixel_format == "Grayscale":
        pixels = (pixels @ np.array([19595, 38470, 7471]) + 0x8000 >> 16)[..., None].astype(np.uint8)
    return Case("ImageDecoder", [np.frombuffer(data, np.uint8)], {"pixel_format": pixel_format},
                domain="", opset=20, expected=[pixels], note=note)


def grey(rows):
    return np.repeat(np.array(rows, np.uint8)[..., None], 3, -1)


def bmp(width, height, bits, data, compression=0, colours=b"", between=b""):
    at = 14 + 40 + len(between) + len(colours)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", at + len(data), 0, 0, at) + header + between + colours + data


def bitmaps():
    """The kinds that Pillow does not write."""
    rows = [[1, 2, 3], [4, 5, 6]]  # bottom up in the file
    data = bytes([4, 5, 6, 0, 1, 2, 3, 0])
    yield "8 bits", bmp(3, 2, 8, data, 0, GREY), grey(rows)
    yield "top down", bmp(3, -2, 8, data, 0, GREY), grey(rows[::-1])
    yield "4 bits", bmp(3, 2, 4, bytes([0x45, 0x60, 0, 0, 0x12, 0x30, 0, 0]), 0, GREY[:64]), grey(rows)
    yield "few colours", bmp(3, 1, 8, bytes([0, 1, 255, 0]), 0, GREY), grey([[0, 1, 255]])
    yield "5 bits each", bmp(2, 1, 16, struct.pack("<HH", 0x7fff, 31 << 10 | 16)), \
        [[[255, 255, 255], [255, 0, 132]]]
    yield "masks", bmp(2, 1, 16, struct.pack("<HH", 0x07e0, 0xf800), 3, b"",
                       struct.pack("<III", 0xf800, 0x7e0, 0x1f)), [[[0, 255, 0], [255, 0, 0]]]
    yield "masks of 32 bits", bmp(1, 1, 32, struct.pack("<I", 0x11223344), 3, b"",
                                  struct.pack("<III", 0xff000000, 0xff0000, 0xff00)), \
        [[[0x11, 0x22, 0x33]]]
    runs = bytes([3, 9, 0, 0, 0, 3, 1, 2, 3, 0, 0, 1])  # a run of 9, then 1 2 3 one by one
    yield "runs", bmp(3, 2, 8, runs, 1, GREY), grey([[1, 2, 3], [9, 9, 9]])
    yield "runs of 4 bits", bmp(3, 2, 4, bytes([3, 0x56, 0, 2, 0, 1, 1, 0x70, 0, 1]), 2, GREY[:64]), \
        grey([[0, 0, 0], [5, 6, 5]])
    old = b"BM" + struct.pack("<IHHI", 0, 0, 0, 26) + struct.pack("<IHHHH", 12, 1, 1, 1, 24)
    yield "of OS/2", old + bytes([1, 2, 3, 0]), [[[3, 2, 1]]]


def maps():
    yield "text bits", b"P1\n# two rows\n2 2\n1 0\n01", grey([[0, 255], [255, 0]])
    yield "bits", b"P4 9 1\n\x80\x80", grey([[0] + [255] * 7 + [0]])
    yield "text greys", b"P2 2 1 15\n15 7\n", grey([[255, 119]])
    yield "text colours", b"P3 1 1 255 1 2 3", [[[1, 2, 3]]]
    yield "16 bits", b"P5 2 1 65535\n\xff\xff\x80\x00", grey([[255, 128]])


def broken():
    with np.load(DATA) as data:
        for name in ("jpeg_rgb", "png_rgb", "tiff_rgb", "webp_rgb", "jpeg2000_rgb", "bmp_rgb"):
            whole = data[f"in/{name}"].tobytes()
            yield f"{name} cut", whole[:len(whole) * 2 // 3]
    yield "nothing", b""
    yield "no picture", b"GIF89a"
    yield "greys above white", b"P2 1 1 15 16"
    yield "negative width", bmp(-3, 2, 24, b"\0" * 24)
    yield "palette missing", bmp(3, 2, 8, b"\0" * 8)


def cases():
    with np.load(DATA) as data:
        for key in data.files:
            if key.startswith("in/"):
                name = key[3:]
                yield picture(data[key].tobytes(), data[f"out/{name}"], note=name)
                if name.endswith("_rgb"):
                    for other in ("BGR", "Grayscale"):
                        yield picture(data[key].tobytes(), data[f"out/{name}"], other, note=name)
    for note, data, pixels in (*bitmaps(), *maps()):
        yield picture(data, pixels, note=note)
    for note, data in broken():
        yield picture(data, np.zeros((0, 0, 3)), note=note)
