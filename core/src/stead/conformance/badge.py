"""An SVG badge that says how a run went: no fonts are fetched, no service is asked."""

from xml.sax.saxutils import escape

from stead.conformance.report import ConformanceReport

__all__ = ["badge"]

_CHARACTER = 7  # width of an average character of 11 px Verdana; `textLength` makes the rest fit
_PADDING = 10


def badge(report: ConformanceReport) -> str:
    """Draws the badge of a run: how many of the laws that were tried were held."""
    counts = report.counts()
    tried = counts["held"] + counts["waived"] + counts["failed"]
    label, value = "stead conformance", f"{counts['held']}/{tried} laws"
    colour = "#e05d44" if not report.conforms() else "#4c1" if not counts["waived"] else "#dfb317"
    left, right = (len(text) * _CHARACTER + _PADDING for text in (label, value))
    title = escape(f"{label}: {report.summary()}; contract {report.contract}, suite {report.suite}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">\n'
        f"  <title>{title}</title>\n"
        f'  <rect width="{left}" height="20" fill="#555"/>\n'
        f'  <rect x="{left}" width="{right}" height="20" fill="{colour}"/>\n'
        f'  <g fill="#fff" font-family="Verdana,Geneva,sans-serif" font-size="11">\n'
        f'    <text x="{_PADDING // 2}" y="14" textLength="{left - _PADDING}">{escape(label)}</text>\n'
        f'    <text x="{left + _PADDING // 2}" y="14" textLength="{right - _PADDING}">{escape(value)}</text>\n'
        f"  </g>\n</svg>\n"
    )
