"""The public names of logsuper: what the pages of the API list, and what code in texts links to."""

import ast
import importlib
import inspect
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from sphinx.ext.autodoc.mock import mock

import logsuper

# Rooms in the order of the pages, each with groups of names. Public names that are in no group
# come last, so that a new name is never missing.
ROOMS: dict[str, dict[str, list[str]]] = {
    "model": {"The distribution": ["LogSupermodular"]},
    "functions": {
        "Families": [
            "Modular", "Cut", "grid_cuts", "ConcaveCardinality", "ConcaveOfModular", "Coverage",
            "FacilityLocation", "PnPotts", "RobustPn", "LogDet", "GaussianInformation",
            "SetFunction", "Sum",
        ],
        "The base class, and a test of submodularity": [
            "SubmodularFunction", "check_submodular", "SubmodularityReport", "PairwiseGraph",
        ],
    },
    "solvers": {
        "Functions": ["maximize", "prepare", "min_norm_point"],
        "By tiles": ["maximize_tiles", "perturb_tiles", "Tiled", "TileProgress"],
        "Results": ["Prepared", "Maximized", "Solved", "Perturbed", "LabelLosses", "MinNormPoint"],
    },
    "bounds": {
        "Choosing a method": ["auto"],
        "Exact values": ["exact", "enumeration", "elimination", "transfer", "cardinality"],
        "Upper bounds": ["lfield", "logistic", "power", "trw"],
        "Lower bounds": ["superdifferential", "mean_field", "bethe"],
        "Both": ["strips"],
        "By tiles": ["marginals_tiles"],
        "Results": ["Bound", "Bracket", "Marginals"],
        "Errors": ["NotApplicable", "TooLarge"],
    },
    "sampling": {},
    "channels": {"Channels": ["Flips", "AsymmetricFlips", "Gaussian", "Missing"]},
    "estimators": {
        "Masks": ["MaskDenoiser", "flatten_light"],
        "Photographs": [
            "segment", "ScribbleSegmenter", "Segmentation", "Suggestion", "ScribbleSession",
            "MaskCRF",
        ],
        "Binary rows": ["LogSupermodularDensity"],
        "Files and scores": ["load_model", "pixel_scorer"],
    },
    "learning": {
        "Learners": [
            "logistic", "latent", "moments", "resample", "exact", "max_margin", "marginal", "saa",
            "lfield", "pseudo", "choose_learner", "choose_exact", "Learner", "LEARNERS",
        ],
        "Examples and parameters": [
            "make_examples", "Examples", "Layout", "Parameters", "Penalty", "Context", "Place",
            "contrast_weights",
        ],
        "Decoding": ["modes", "means", "samples", "best_factor", "best_temperature", "soften"],
        "Objectives, engines and optimisers": [
            "Objective", "Loss", "Engine", "FixedNoise", "FreshNoise", "Exact", "Strips",
            "descend", "minimize", "Descent", "make_steps", "Learned", "Record", "State",
            "log_evidence", "bracket_log_evidence", "moment_targets",
        ],
        "Selection and scores": ["cross_validate", "path", "Selection", "score", "Score"],
        "Noise": ["estimate_noise", "examine_residuals", "Residuals", "neighbour_correlation"],
        "Layers for any framework": [
            "perturbed_loss", "PerturbedLoss", "perturbed_means", "PerturbedMeans",
            "total_variation", "TotalVariation",
        ],
    },
    "torch": {},
    "datasets": {
        "Data that need no download": [
            "make_silhouettes", "make_scenes", "gaussian_mixture_graph", "corrupt",
        ],
    },
    "io": {
        "Images": [
            "read_image", "write_image", "encode_image", "inspect_image", "find_images",
            "ImageFiles", "ImageInfo", "SUFFIXES",
        ],
        "UAI files": ["read_uai", "read_evidence", "write_uai", "write_uai_results"],
    },
    "warnings": {"Warnings": ["ConvergenceWarning", "PrecisionWarning"]},
}  # fmt: skip

TITLES = {
    "model": "The model",
    "functions": "Submodular functions",
    "solvers": "Solvers",
    "bounds": "Bounds and marginals",
    "sampling": "Sampling",
    "channels": "Channels",
    "estimators": "Estimators",
    "learning": "Learning",
    "torch": "Layers over PyTorch",
    "datasets": "Data",
    "io": "Files",
    "warnings": "Warnings",
}


# Constants have no docstring of their own.
CONSTANTS = {
    "CHANNELS": "The channels that can be written to files, by the name of their kind.",
    "ESTIMATORS": "Names of the estimators of log Z that `log_partition` takes.",
    "LEARNERS": "The learners by name: what each needs, and what its parameters are meant for.",
    "SAMPLERS": "The samplers by name: whether they are exact, and which functions they are for.",
    "SUFFIXES": "Suffixes by which files in a folder count as images, in lower or upper case.",
}


class Name(NamedTuple):
    """A public name: the module that users import it from, and the object."""

    module: str
    name: str
    object: object

    @property
    def full(self) -> str:
        """The name with its module."""
        return f"{self.module}.{self.name}"


def _top_level() -> dict[str, str]:
    """Return the names of `logsuper/__init__.pyi`, each with the room that it comes from."""
    tree = ast.parse(Path(logsuper.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    rooms = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "logsuper":
            room = node.module.split(".")[1]
            rooms[node.names[0].name] = "warnings" if room == "_base" else room
    return rooms


def public_names() -> dict[str, list[Name]]:
    """Return the public names of each room, in the order of its groups."""
    top = _top_level()
    rooms: dict[str, list[Name]] = {}
    for room, groups in ROOMS.items():
        own = [name for name, home in top.items() if home == room]
        if room not in ("model", "warnings"):
            with mock(["torch"]):  # large, and only its names are needed
                module = importlib.import_module(f"logsuper.{room}")
            own += [name for name in module.__all__ if name not in own]
        order = [name for names in groups.values() for name in names]
        unknown = set(order) - set(own)
        if unknown:
            raise ValueError(f"docs: {sorted(unknown)} are not public names of {room}")
        found = []
        for name in [*order, *(name for name in own if name not in order)]:
            home = logsuper if name in top else module
            found.append(Name(home.__name__, name, getattr(home, name)))
        rooms[room] = found
    missing = set(top) - {n.name for names in rooms.values() for n in names}
    if missing:
        raise ValueError(f"docs: no page for {sorted(missing)}")
    return rooms


def methods_by_class(cls: type, public: Collection[type]) -> dict[type, list[str]]:
    """Return the public methods, by the class whose page shows them: `cls` or a public base."""
    found: dict[type, list[str]] = {cls: []}
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("logsuper."):
            continue
        for name, member in vars(base).items():
            if name in seen or (name.startswith("_") and name != "__call__"):
                continue
            seen.add(name)
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if (inspect.isfunction(member) or isinstance(member, property)) and member.__doc__:
                found.setdefault(base if base in public else cls, []).append(name)
    return found


def links() -> dict[str, str]:
    """Return what `code` in texts may be called, and the full name that it links to."""
    found = {}
    rooms = public_names()
    objects = [item.object for names in rooms.values() for item in names]
    classes = {found for found in objects if inspect.isclass(found)}
    for room, names in rooms.items():
        for item in names:
            short = [item.full, item.full.replace("logsuper", "ls", 1)]
            if item.module == "logsuper":
                short.append(f"ls.{item.name}")
                if room not in ("model", "warnings"):
                    short += [f"ls.{room}.{item.name}", f"logsuper.{room}.{item.name}"]
            else:
                short.append(f"{room}.{item.name}")
            if item.name[0].isupper() and item.module == "logsuper":
                short.append(item.name)
            found.update(dict.fromkeys(short, item.full))
            if inspect.isclass(item.object):
                for method in methods_by_class(item.object, classes)[item.object]:
                    if not method.startswith("_"):
                        found.update({f"{key}.{method}": f"{item.full}.{method}" for key in short})
                        if item.name == "LogSupermodular":
                            found[f"m.{method}"] = f"{item.full}.{method}"
    return found
