"""Thumbnails of pictures, in processes: work that keeps a core busy.

    python examples/thumbnails.py FOLDER     puts a job for each .ppm file, and waits for them
    jobcentre-worker thumbnails:app          in this folder: makes them

Pictures are PPM (P6), which needs no library; with Pillow the body of `shrink` is two lines.
"""

import sys
from pathlib import Path
from typing import List

from jobcentre import App, Context, NoRetry

app = App()


@app.task(
    queue="thumbnails",
    process=True,
    context=True,
    timeout=60,
    keep_result=600,
    retry=3,
    # One job for each picture, however often it is asked for.
    unique=lambda path, **_: path,
)
def shrink(ctx: Context, path: str, factor: int = 8) -> List[int]:
    """Writes PATH.small.ppm, each pixel of which is the mean of factor x factor pixels."""
    width, height, pixels = read_ppm(Path(path))
    small = bytearray()
    columns, rows = width // factor, height // factor
    for row in range(rows):
        for column in range(columns):
            for colour in range(3):
                total = 0
                for y in range(row * factor, (row + 1) * factor):
                    start = (y * width + column * factor) * 3 + colour
                    total += sum(pixels[start : start + factor * 3 : 3])
                small.append(total // factor**2)
        ctx.progress((row + 1) / rows)
    header = f"P6 {columns} {rows} 255\n".encode()
    Path(path + ".small.ppm").write_bytes(header + small)
    return [columns, rows]


def read_ppm(path: Path) -> "tuple[int, int, bytes]":
    data = path.read_bytes()
    header, _, _ = data.partition(b"\n")
    words = header.split()
    if len(words) != 4 or words[0] != b"P6" or words[3] != b"255":
        # Another attempt would find the same.
        raise NoRetry(f"{path} is no PPM file with its header in one line")
    width, height = int(words[1]), int(words[2])
    return width, height, data[len(header) + 1 :]


def main() -> None:
    paths = sorted(str(path.resolve()) for path in Path(sys.argv[1]).glob("*.ppm"))
    jobs = shrink.put_many([(path,) for path in paths if not path.endswith(".small.ppm")])
    for job in jobs:
        print(job.id, job.result(timeout=300))


if __name__ == "__main__":
    main()
