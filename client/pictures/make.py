#!/usr/bin/env python3
"""Draws the pictures of the top-level README: attention.svg and load.svg, in this folder.

    ./dev build && client/pictures/make.py

The script starts the server that the checkout has built, asks it with `attend plot` and `attend bench`, and stops it. Chromium
(Debian's package chromium) draws the charts of the bench's page.
"""

import html
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent.parent / "build/release/bin"
CHARTS = ("throughput-by-load", "latency-by-load")
FONT = "font-family:'DejaVu Sans','Noto Sans',sans-serif"


def attend(*arguments, check=True):
    subprocess.run([PROGRAMS / "attend", *arguments], check=check)


def drawn(page):
    """The HTML page as it is after its scripts have drawn."""
    return subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,900", "--virtual-time-budget=3000",
         "--dump-dom", page.as_uri()], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def start_server():
    """A server on a free port with a short queue, and its address."""
    server = subprocess.Popen(
        [PROGRAMS / "attend-server", "--listen=127.0.0.1:0", "--admin-listen=none", "--metrics-listen=none",
         "--max-queue-wait=300ms"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in server.stdout:
        if found := re.match(r"attend-server listening on (\S+)", line):
            return server, found[1]
    raise SystemExit("the server did not start")


def find(pattern, text):
    return re.search(pattern, text, re.DOTALL)[1]


def charts_as_svg(page):
    """The wide pictures of CHARTS in a drawn page of `attend bench --html`, one below the other, with title and legend."""
    light = find(r":root \{(.*?)\}", page)
    colours = dict(re.findall(r"(--[\w-]+): (#\w+)", light))
    style = "".join(re.findall(r"^(?:svg )?\.(?:grid|tick|line|point|limit|limit-name|again|series-\d)\s*\{.*?\}",
                               page, re.MULTILINE))
    style = re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], style).replace("currentColor", "inherit")
    # A renderer without `currentColor` takes the colour of a point from its class.
    style += "".join(f".point.series-{n}{{fill:{colours[f'--series-{n}']}}}" for n in range(1, 9))
    parts, top = [], 16
    for name in CHARTS:
        figure = find(rf'<figure[^>]* id="{name}">(.*?)</figure>', page)
        title = html.unescape(find(r"<h2>(.*?)</h2>", figure))
        picture = re.search(r'<svg viewBox="0 0 (\d+) (\d+)".*?>(.*?)(?:<g></g>)?</svg>', figure, re.DOTALL)
        parts.append(f'<text class="title" x="16" y="{top + 16}">{html.escape(title)}</text>')
        x = 260
        for colour, label in re.findall(r'<path class="(series-\d)".*?<bdi>(.*?)</bdi>', find(r"<ul(.*?)</ul>", figure)):
            parts.append(f'<path class="line {colour}" stroke-width="3" d="M{x},{top + 11}h24"/>'
                         f'<text x="{x + 32}" y="{top + 16}">{label}</text>')
            x += 110
        parts.append(f'<g transform="translate(16 {top + 34})">{picture[3].strip()}</g>')
        width, top = int(picture[1]) + 32, top + int(picture[2]) + 60
    body = re.sub(r' data-[\w-]+="[^"]*"', "", "\n".join(parts))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}" role="img" '
            f'aria-label="Throughput and latency by load">\n'
            f"<style>text{{{FONT};font-size:13px;fill:{colours['--text']}}}.title{{font-size:16px;font-weight:600}}{style}</style>\n"
            f'<rect width="{width}" height="{top}" fill="{colours["--surface"]}"/>\n{body}\n</svg>\n')


def main():
    if sys.argv[1:]:
        sys.exit(__doc__)
    server, address = start_server()
    try:
        attend("plot", f"--server={address}", "--tokens=17,4,250,3,9,64,17,4,250,3,88,12", "--causal", "--window=6",
               "--global-tokens=0", "--alibi=standard", "--weights-heads=0,3", f"--output={HERE / 'attention.svg'}")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "load.html"
            # Exits 1: the server refuses what is beyond its peak, which the picture is to show.
            attend("bench", f"--server={address}", "--shape=1x512x512", "--rate=30:180:30", "--duration=2s", "--warmup=1s",
                   "--timeout=5s", f"--html={page}", check=False)
            (HERE / "load.svg").write_text(charts_as_svg(drawn(page)))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
