"""Draws some steps of a trace.json as an SVG: python3 docs/pictures/draw_trace.py TRACE FIRST_STEP STEPS > OUT.svg

One row for each track of each process that moved or computed something, in the colours below.
"""
import html
import json
import sys

COLOURS = {"forward": "#4c78a8", "backward": "#54a24b", "rebuild": "#b79a20", "update": "#b279a2",
           "contribute": "#2f2f2f",
           "wait": "#e45756", "send": "#f58518", "receive": "#72b7b2", "sum": "#9d755d"}
LEFT, WIDTH, ROW, TOP = 190, 900, 15, 40


def spans_and_names(trace):
    spans, names, processes = [], {}, {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            spans.append(event)
        elif event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    return spans, names, processes


def draw(trace, first, count):
    spans, names, processes = spans_and_names(trace)
    compute = [s for s in spans if names[s["pid"], s["tid"]] == "compute"
               and first <= s["args"]["step"] < first + count]
    begin = min(s["ts"] for s in compute)
    end = max(s["ts"] + s["dur"] for s in compute)
    shown = [s for s in spans if s["ts"] + s["dur"] > begin and s["ts"] < end]
    order = {"compute": 0, "adding": 0}
    rows = sorted({(s["pid"], s["tid"]) for s in shown},
                  key=lambda row: (row[0], order.get(names[row], 1), names[row]))
    out, y, process = [], TOP, None
    at = {}
    for row in rows:
        if row[0] != process:
            process, y = row[0], y + 8
            out.append(f'<text x="4" y="{y + 11}" font-weight="bold">{processes[process]}</text>')
        at[row] = y
        out.append(f'<text x="{LEFT - 6}" y="{y + 11}" text-anchor="end">{names[row]}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW - 2}" fill="#f2f2f2"/>')
        y += ROW
    scale = WIDTH / (end - begin)
    for s in shown:  # what contains others comes first, and is drawn over
        left = max(s["ts"], begin)
        width = max(0.4, (min(s["ts"] + s["dur"], end) - left) * scale)
        title = html.escape(f'{s["name"]}, step {s["args"]["step"]}: {s["dur"] / 1000:.2f} ms')
        out.append(f'<rect x="{LEFT + (left - begin) * scale:.2f}" y="{at[s["pid"], s["tid"]]}" '
                   f'width="{width:.2f}" height="{ROW - 2}" fill="{COLOURS[s["cat"]]}">'
                   f'<title>{title}</title></rect>')
    for i, (name, colour) in enumerate(COLOURS.items()):
        out.append(f'<rect x="{LEFT + i * 92}" y="8" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{LEFT + 17 + i * 92}" y="18">{name}</text>')
    out.append(f'<text x="{LEFT}" y="{TOP - 6}">0 ms</text>'
               f'<text x="{LEFT + WIDTH}" y="{TOP - 6}" text-anchor="end">'
               f'{(end - begin) / 1000:.0f} ms</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 10}" height="{y + 6}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(out) + "\n</svg>")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(draw(json.load(file), int(sys.argv[2]), int(sys.argv[3])))
