"""Registry of experiments that need the model.

An entry of EXPERIMENTS defines the command, the function in Python, the group and stage of a run,
the reference page and the repair. The code of an experiment is imported on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import xarray as xr

    from geostat.runs.options import MeasurementOptions


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment: name of its command, and group of the run that it writes.

    The group is also the name of the stage and of the folder below geostat/experiments.
    """

    command: str
    group: str

    @property
    def options(self) -> type[MeasurementOptions]:
        """Class of its options; its docstring is the help of the command."""
        return cast("type[MeasurementOptions]", self.module("options").OPTIONS)

    def module(self, name: str) -> Any:
        """Return a module of its folder.

        options: OPTIONS, and its function in Python. measure: `measure(options, model, documents,
        console=)`. dataset: RECORDS, its quantities, and `summary(dataset, everything=)`.
        """
        return import_module(f"geostat.experiments.{self.group}.{name}")

    def from_keywords(self, model: Any, documents: Any, **kwargs: Any) -> xr.DataTree:
        """Measure the experiment with keywords of its Python function and open the run."""
        from geostat.runs.in_memory import options_and_inputs

        inputs = options_and_inputs(self.options, self.command, model, documents, **kwargs)
        run: xr.DataTree = self.module("measure").measure(*inputs).tree()
        return run


EXPERIMENTS: Final = (
    Experiment("effective", "effective"),
    Experiment("ablate", "ablation"),
    Experiment("normaliser", "normaliser"),
)


def by_command(command: str) -> Experiment:
    """Return the experiment of a command."""
    return next(experiment for experiment in EXPERIMENTS if experiment.command == command)
