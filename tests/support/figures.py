"""Content of a figure."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from reports.figures import style
from reports.figures.plan import draw


def texts(figure):
    """Return every visible text of a figure, with its box in pixels; tick labels beyond the axes
    are not visible.
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


def assert_labels_stand_apart(plan, run, width=None, look="paper"):
    """Assert that no label of a figure of this width in inches covers another or leaves the figure;
    returns the figure.
    """
    figure = draw(plan, run, width, look)
    with style.context(figure.get_figwidth(), look):
        FigureCanvasAgg(figure)
        figure.canvas.draw()
        boxes = texts(figure)
    for index, (name, box) in enumerate(boxes):
        assert -1 <= box.x0 < box.x1 <= figure.bbox.x1 + 1, name
        assert -1 <= box.y0 < box.y1 <= figure.bbox.y1 + 1, name
        for other, against in boxes[:index]:
            overlap = (
                min(box.x1, against.x1) - max(box.x0, against.x0),
                min(box.y1, against.y1) - max(box.y0, against.y0),
            )
            assert min(overlap) <= 1.5, f"{name!r} covers {other!r}"
    return figure
