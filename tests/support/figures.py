"""What a figure shows."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from reports.figures import style
from reports.figures.every import draw, plans
from reports.page import page


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


def assert_labels_stand_apart(plan, run, width=None, look="paper"):
    """No label of a figure so many inches wide covers another or leaves the figure, which is
    returned.
    """
    figure = draw(plan, run, width, look)
    with style.context(figure.get_figwidth(), look):
        FigureCanvasAgg(figure)
        figure.canvas.draw()
        boxes = texts(figure)
    for index, (name, box) in enumerate(boxes):
        assert box.x0 >= -1, name
        assert box.y0 >= -1, name
        assert box.x1 <= figure.bbox.x1 + 1, name
        assert box.y1 <= figure.bbox.y1 + 1, name
        for other, against in boxes[:index]:
            overlap = (
                min(box.x1, against.x1) - max(box.x0, against.x0),
                min(box.y1, against.y1) - max(box.y0, against.y0),
            )
            assert min(overlap) <= 1.5, f"{name!r} covers {other!r}"
    return figure


def shown_alone(monkeypatch, *names):
    """Let pages draw figures of these names alone, of those that a run has."""
    monkeypatch.setattr(
        page, "plans", lambda run: [plan for plan in plans(run) if plan.name in names]
    )
