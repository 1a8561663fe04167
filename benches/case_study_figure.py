"""A figure of the case studies: CPU time by the way of measuring, as horizontal bars (SVG)."""
from xml.sax.saxutils import escape

COLOURS = {"probe, not recorded": "#9ecae1", "trace, not recorded": "#fdd0a2", "auto, recorded": "#756bb1", "probe, recorded": "#3182bd", "trace, recorded": "#e6550d", "sample, recorded": "#31a354"}
LEFT, WIDTH, BAR, GAP = 230, 560, 9, 12


def write(path, rows, limit=2.0):
    """`rows`: [(label, {way: ratio, None if unknown})]. Bars longer than `limit` are cut and say so."""
    height = 60 + len(rows) * (len(COLOURS) * BAR + GAP) + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" font-family="sans-serif" font-size="11">',
             '<rect width="100%" height="100%" fill="white"/>']
    x = LEFT
    for way, colour in COLOURS.items():
        parts.append(f'<rect x="{x - 200}" y="10" width="10" height="10" fill="{colour}"/><text x="{x - 185}" y="19">{way}</text>')
        x += 150
    for tick in range(0, 11, 2):
        at = LEFT + WIDTH * tick / 10
        parts.append(f'<line x1="{at}" y1="40" x2="{at}" y2="{height - 18}" stroke="#ddd"/><text x="{at}" y="36" text-anchor="middle">{(limit - 1) * tick * 10:+.0f} %</text>')
    y = 46
    for label, cost in rows:
        parts.append(f'<text x="{LEFT - 8}" y="{y + len(COLOURS) * BAR / 2 + 4}" text-anchor="end">{escape(label)}</text>')
        for way, colour in COLOURS.items():
            ratio = cost.get(way)
            if ratio is not None:
                long = min(max(ratio - 1, 0.001), limit - 1) / (limit - 1) * WIDTH
                parts.append(f'<rect x="{LEFT}" y="{y}" width="{long:.1f}" height="{BAR - 1}" fill="{colour}"/>')
                if ratio > limit or ratio < 0.995:
                    parts.append(f'<text x="{LEFT + long + 4:.1f}" y="{y + BAR - 1}" font-size="9">{(ratio - 1) * 100:+.0f} %</text>')
            y += BAR
        y += GAP
    parts.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")
