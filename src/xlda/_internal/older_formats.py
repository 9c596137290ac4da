"""Files of the formats 1 and 2, which had one dict for everything and no sections."""

from __future__ import annotations

from typing import Any

from xlda._internal.section import Section, Tensors


def sections_of_older(tensors: Tensors, info: dict[str, Any]) -> dict[str, Section]:
    """What files of the formats 1 and 2 have, as sections."""
    for name in ("params", "labels", "numbers"):
        if name not in info:
            raise ValueError(f"it has no {name}")
    of_layer = {name: tensor for name, tensor in tensors.items() if name.startswith("layer_")}
    of_moments = {name: tensor for name, tensor in tensors.items() if name not in of_layer}
    sections = [
        Section("params", info=info["params"]),
        Section("labels", info={"names": info["labels"]}),
        Section("moments", tensors=of_moments, info=info["numbers"]),
    ]
    if of_layer:
        of_layer = {name.removeprefix("layer_"): tensor for name, tensor in of_layer.items()}
        sections.append(Section("layer", tensors=of_layer))
    if info.get("plan") is not None:
        sections.append(Section("search", info={"fisher": info["plan"]}))
    if info.get("backbone") is not None:
        sections.append(Section("backbone", info=info["backbone"]))
    if info.get("feature_names", []) != []:
        sections.append(Section("features", info={"names": info["feature_names"]}))
    for section in sections:
        if not isinstance(section.info, dict):
            raise ValueError(f"its {section.name} are no dict")
    return {section.name: section for section in sections}
