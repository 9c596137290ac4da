"""`xlda learn`."""

from __future__ import annotations

from xlda.cli import options
from xlda.cli.console import say, say_json
from xlda.cli.models import changed
from xlda.cli.samples import Choice, for_model


def learn(
    model: options.Model,
    where: options.Where,
    label: options.Label = None,
    only: options.Only = None,
    without: options.Without = None,
    backbone: options.OwnBackbone = None,
    on_error: options.Skip = options.OnError.stop,
    json: options.Json = False,
) -> None:
    """Learn more: new classes, or more samples of known ones. The file is replaced whole, or not at all.

    $ xlda learn shop.xlda new/
    $ xlda learn shop.xlda kiwi1.jpg kiwi2.jpg --label kiwi
    """
    with changed(model) as clf:
        known, n_before = set(clf.classes_.tolist()), clf.n_samples_seen_
        samples = for_model(where, clf, model, backbone, on_error, Choice(only, without, label))
        for batch in samples.labelled("learning"):
            clf.partial_fit(batch.embeddings, batch.labels)
        new = [name for name in clf.classes_.tolist() if name not in known]
        n_learned = clf.n_samples_seen_ - n_before
    result = {"model": str(model), "learned": n_learned, "new_classes": new, "classes": len(clf.classes_)}
    if json:
        say_json(result)
    else:
        say(f"{model}: {n_learned:,} samples learned; {len(new):,} new classes, {len(clf.classes_):,} in all")
