"""Thumbnails of pictures on the web, in processes: work that keeps a core busy.

    python examples/thumbnails.py FOLDER URL...    puts a job for each picture, and waits for them
    jobcentre-worker thumbnails:app                in this folder: fetches pictures, shrinks them

Pictures are PPM (P6), which needs no library; with Pillow the body of `shrink` is two lines.
"""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from jobcentre import App, Context, NoRetry

app = App()
BYTES_MAX = 64 * 1024 * 1024


@app.task(
    queue="thumbnails",
    process=True,
    context=True,
    timeout=60,
    keep_result=600,
    retry=3,
    # One job for each picture, however often it is asked for.
    unique=lambda folder, url, **_: f"{folder} {url}",
)
def thumbnail(ctx: Context, folder: str, url: str, factor: int = 8) -> str:
    """Returns the path of the thumbnail, each pixel of which is the mean of factor x factor."""
    width, height, pixels = read_ppm(fetch(url), url)
    small = bytearray()
    columns, rows = width // factor, height // factor
    for row in range(rows):
        small += shrink(pixels[row * factor * width * 3 :], width, columns, factor)
        ctx.progress((row + 1) / rows)
    # What a URL says is not to become a path.
    path = Path(folder, hashlib.sha256(url.encode()).hexdigest()[:16] + ".ppm")
    written = path.with_suffix(f".{ctx.id}")
    written.write_bytes(f"P6 {columns} {rows} 255\n".encode() + small)
    # In one step: others read a whole picture, or none.
    os.replace(written, path)
    return str(path)


def shrink(pixels: bytes, width: int, columns: int, factor: int) -> bytes:
    """The first row of the thumbnail of `pixels`."""
    small = bytearray()
    for column in range(columns):
        for colour in range(3):
            total = 0
            for y in range(factor):
                start = (y * width + column * factor) * 3 + colour
                total += sum(pixels[start : start + factor * 3 : 3])
            small.append(total // factor**2)
    return bytes(small)


def fetch(url: str) -> bytes:
    # urlopen reads files, too.
    if not url.startswith(("http://", "https://")):
        raise NoRetry(f"{url} is no address of the web")
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            data: bytes = answer.read(BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        if error.code < 500 and error.code not in (408, 429):
            raise NoRetry(f"{url}: {error}") from error
        raise
    if len(data) > BYTES_MAX:
        raise NoRetry(f"{url} has more than {BYTES_MAX} bytes")
    return data


def read_ppm(data: bytes, url: str) -> "tuple[int, int, bytes]":
    header, _, pixels = data.partition(b"\n")
    words = header.split()
    if len(words) == 4 and words[0] == b"P6" and words[3] == b"255":
        width, height = int(words[1]), int(words[2])
        if len(pixels) == width * height * 3:
            return width, height, pixels
    # Another attempt would find the same.
    raise NoRetry(f"{url} is no PPM file with its header in one line")


def main() -> None:
    folder, *urls = sys.argv[1:]
    jobs = thumbnail.put_many([(os.path.abspath(folder), url) for url in urls])
    for url, job in zip(urls, jobs):
        print(url, job.result(timeout=300))


if __name__ == "__main__":
    main()
