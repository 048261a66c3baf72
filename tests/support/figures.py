"""What a figure shows."""

from matplotlib.text import Text


def texts(figure):
    """Every text that a figure shows, with its box in pixels; labels of ticks beyond the axes
    are not shown.
    """
    renderer = figure.canvas.get_renderer()
    beyond = set()
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not min(limits) <= tick.get_loc() <= max(limits):
                    beyond |= {tick.label1, tick.label2}
    found = [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in beyond
    ]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in found]
