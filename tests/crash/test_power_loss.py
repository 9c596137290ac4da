"""Losses of power: nothing that was acknowledged is lost; and a service that does not sync is found out."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("apsw", reason="the service needs the extra `serve`")

from crash.power_loss import Outages


@pytest.fixture(autouse=True)
def _quiet():
    """Every loss is logged as what it is: a disk that has failed."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_a_loss_of_power_loses_nothing_that_was_acknowledged(tmp_path):
    outages = Outages(tmp_path, seed=1)
    for _ in range(40):
        outages.one()
    assert outages.is_fine, (outages.figures(), outages.wrong[:5])
    assert outages.n_acknowledged > 100


def test_a_database_that_does_not_sync_is_found_out(tmp_path):
    outages = Outages(tmp_path, seed=1, synchronous="off")
    while not outages.lost and outages.n_losses < 100:
        outages.one()
    assert outages.lost, outages.figures()
