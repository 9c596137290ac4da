"""Boxes that learn apart and know the same: contributions that add up, exactly and once."""

from __future__ import annotations

from xlda.fleet.box import Box
from xlda.fleet.hub import FleetHub
from xlda.fleet.joined import Joined
from xlda.fleet.message import Message, Version, Versions
from xlda.fleet.model import model_of
from xlda.fleet.registers import FleetClass, Register, Registers, classes_of
from xlda.fleet.space import Space
from xlda.fleet.start import start_of
from xlda.fleet.sums import SignedSamples, Sums

__all__ = [
    "Box",
    "FleetClass",
    "FleetHub",
    "Joined",
    "Message",
    "Register",
    "Registers",
    "SignedSamples",
    "Space",
    "Sums",
    "Version",
    "Versions",
    "classes_of",
    "model_of",
    "start_of",
]
