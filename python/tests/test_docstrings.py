# SPDX-License-Identifier: MIT
"""Docstrings of all public names: every parameter, and what is returned."""

from __future__ import annotations

import inspect
import re

import kmgen
import pytest

INITIALISED = ("KMeans", "KMeansSweep", "Spec")  # classes that people call


def sections(text):
    """The text of each section of a numpydoc docstring by its title."""
    parts = re.split(r"^([A-Z][a-z]+)\n-+\n", inspect.cleandoc(text), flags=re.MULTILINE)
    assert len(set(parts[1::2])) == len(parts[1::2]), "a section twice"
    return dict(zip(parts[1::2], parts[2::2]))


def described(section):
    """Names that a section describes, each with a text below it."""
    found = []
    for heads, below in re.findall(r"^(\S[^\n]*)\n((?: [^\n]*\n?|\n)*)", section, flags=re.MULTILINE):
        assert below.strip(), f"{heads} has no description"
        found += [name.strip().lstrip("*") for name in heads.split(" : ")[0].split(",")]
    return found


def callables():
    """Public functions, and methods of public classes, by their names."""
    for name in kmgen.__all__:
        value = getattr(kmgen, name)
        if not inspect.isclass(value):
            if callable(value):
                yield name, value, value.__doc__
            continue
        if name in INITIALISED:
            yield name, value, value.__doc__
        for method in dir(value):
            own = inspect.getattr_static(value, method)
            own = own.__func__ if isinstance(own, classmethod) else own
            if not method.startswith("_") and inspect.isfunction(own) and own.__module__.startswith("kmgen"):
                yield f"{name}.{method}", own, own.__doc__


@pytest.mark.parametrize(("name", "value", "text"), [pytest.param(*c, id=c[0]) for c in callables()])
def test_parameters_and_results(name, value, text):
    signature, told = inspect.signature(value), sections(text)
    wanted = [p for p in signature.parameters if p not in ("self", "cls")]
    assert sorted(described(told.get("Parameters", ""))) == sorted(wanted)
    gives = signature.return_annotation not in (None, "None", inspect.Signature.empty)
    if not inspect.isclass(value):
        assert ("Returns" in told) == gives
    if "Returns" in told:
        described(told["Returns"])
    if "Raises" in told:
        described(told["Raises"])


def test_attributes():
    for name in kmgen.__all__:
        value = getattr(kmgen, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            told = sections(value.__doc__)
            assert told.get("Attributes") or told.get("Parameters"), name
            described(told.get("Attributes", ""))
