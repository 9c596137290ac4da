"""Learning and embedding on Ray: the same as without it, also when a worker is killed.

Where Ray is missing, these are skipped; `.ci/run` installs it after all other tests.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import oracle
import xlda
from conftest import blobs
from xlda import XLDA

ray = pytest.importorskip("ray", reason="needs Ray: pip install xlda[ray]")
pytest.importorskip("ray.data", reason="needs Ray Data: pip install xlda[ray]")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from xlda.cli.app import run  # noqa: E402
from xlda.errors import OtherBackboneError  # noqa: E402
from xlda.extras.ray import embed, evaluate, fit, predict  # noqa: E402
from xlda.identity import BackboneIdentity  # noqa: E402
from xlda.photos import EmbeddingWriter, Photo, embed_to_parquet, embedding_info, find_photos  # noqa: E402
from xlda.photos.decoding import BadImage  # noqa: E402
from xlda.sources import SourceError, open_source  # noqa: E402
from xlda.sources.formats import Shard  # noqa: E402
from xlda.sources.source import Source  # noqa: E402

# Ray warns of its own imports and of files that its processes leave open.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",  # of a dataset that is not read to its end
    "ignore::UserWarning:ray",
)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _quiet():
    ray.data.DataContext.get_current().enable_progress_bars = False


def write_parts(folder, X, y, n_files):
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(X)), n_files)):
        flat = pa.array(X[part].reshape(-1), pa.float32())
        columns = [pa.FixedSizeListArray.from_arrays(flat, X.shape[1]), pa.array(y[part])]
        pq.write_table(
            pa.table(columns, ["embedding", "label"]), folder / f"{number}.parquet", row_group_size=64
        )
    return folder


@pytest.fixture
def parts(rng, tmp_path):
    X, y = blobs(rng, n_samples=3000, n_classes=40, n_features=24, dtype=np.float32)
    names = np.array([f"class {label}" for label in y])
    return write_parts(tmp_path / "parts", X, names, 5), X, names


def assert_learned(clf, X, y):
    """What was learned is what two passes in float64 say, and predictions are those of a local classifier."""
    counts, means, covariance = oracle.pooled(X, y)
    assert clf.classes_.tolist() == list(counts)
    np.testing.assert_array_equal(clf.class_count_, list(counts.values()))
    np.testing.assert_allclose(clf.means_, list(means.values()), atol=1e-5)
    np.testing.assert_allclose(clf.covariance_, covariance, atol=1e-5)
    local = XLDA(**clf.get_params()).partial_fit(X, y)
    assert local.power_ == clf.power_
    np.testing.assert_array_equal(local.predict(X), clf.predict(X))


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_distributed_classifier_is_the_local_one(workers, parts):
    folder, X, y = parts
    assert_learned(fit(str(folder), workers=workers), X, y)


def test_a_dataset_is_learned_in_chains_of_blocks(parts, monkeypatch):
    folder, X, y = parts
    monkeypatch.setattr("xlda.extras._ray_fit.BLOCK_BYTES", 20_000)
    assert_learned(fit(ray.data.read_parquet(str(folder)), workers=2), X, y)
    rows = ray.data.from_items(
        [{"embedding": x, "label": str(name)} for x, name in zip(X[:500], y[:500], strict=True)]
    )
    assert_learned(fit(rows), X[:500], y[:500])


def test_parameters_that_are_known_at_the_end_are_those_of_a_local_run(parts):
    folder, X, y = parts
    for params in ({"covariance": "fixed"}, {"precision": "half"}, {"power": 0.5}, {"priors": "empirical"}):
        clf, local = fit(str(folder), workers=3, **params), XLDA(**params).partial_fit(X, y)
        assert clf.get_params() == local.get_params()
        assert np.mean(clf.predict(X) == local.predict(X)) > 0.999
        clf.partial_fit(X[:50], y[:50])
        local.partial_fit(X[:50], y[:50])
        np.testing.assert_allclose(clf.covariance_, local.covariance_, atol=1e-3)


def test_the_power_is_chosen_once_for_all_workers(rng, tmp_path):
    X, y = blobs(rng, n_samples=600, dtype=np.float32)
    X[:300] = np.abs(X[:300])  # the second worker alone would choose none
    with pytest.warns(UserWarning, match="negative"):
        local = XLDA().partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    clf = fit(str(write_parts(tmp_path / "parts", X, y, 2)), workers=2)
    assert clf.power_ == local.power_ == 0.5
    np.testing.assert_allclose(clf.means_, local.means_, atol=1e-5)


class KillsOnce(Shard):
    """Rows of another shard, in whose middle the first process that reads them is killed."""

    def __init__(self, shard, marker):
        self.name, self._shard, self._marker = shard.name, shard, marker

    def n_samples(self):
        return self._shard.n_samples()

    def batches(self, start, size):
        for number, batch in enumerate(self._shard.batches(start, size)):
            if number == 3 and not self._marker.exists():
                self._marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch


def test_a_worker_that_is_killed_changes_nothing(parts, tmp_path):
    folder, X, y = parts
    shards = open_source(str(folder))._shards
    marker = tmp_path / "killed"
    source = Source([KillsOnce(shards[0], marker), *shards[1:]])
    assert_learned(fit(source, workers=2, batch_size=50), X, y)
    assert marker.exists()


def test_bad_samples_are_told_with_their_file_and_row(parts):
    folder, X, y = parts
    X = X.copy()
    X[700, 3] = np.nan
    write_parts(folder, X, y, 5)
    with pytest.raises(ValueError, match=r"1\.parquet, row 100.*NaN"):
        fit(str(folder), workers=2, batch_size=50)
    with pytest.raises(ValueError, match="slda"):
        fit(str(folder), rule="slda")
    with pytest.raises(Exception, match="no column 'label'"):
        fit(ray.data.from_items([{"embedding": [1.0]}]))


def test_predicting_and_evaluating_are_those_of_the_classifier(parts, tmp_path):
    folder, X, y = parts
    clf = XLDA().fit(X[:1500], y[:1500])
    clf.save(tmp_path / "m.xlda")
    rows = predict(str(folder), clf).take_all()
    assert sorted(row["predicted"] for row in rows) == sorted(clf.predict(X).tolist())
    assert sum(row["predicted"] == row["label"] for row in rows) == np.sum(clf.predict(X) == y)
    best = predict(str(folder), tmp_path / "m.xlda", k=3).take(1)[0]
    assert len(best["predicted"]) == len(best["score"]) == 3
    found = evaluate(str(folder), tmp_path / "m.xlda", k=3)
    among = (clf.predict_topk(X, 3)[0] == y[:, None]).any(axis=1)
    assert found["samples"] == len(X)
    assert found["accuracy"] == pytest.approx(np.mean(clf.predict(X) == y))
    assert found["top_3_accuracy"] == pytest.approx(among.mean())
    assert found["by_class"]["class 7"] == pytest.approx(np.mean(clf.predict(X)[y == "class 7"] == "class 7"))


# -- embedding


@pytest.fixture
def shop(rng, tmp_path):
    from PIL import Image

    for label in ("apple", "pear", "kiwi"):
        (tmp_path / "shop" / label).mkdir(parents=True)
        for number in range(60):
            pixels = rng.integers(0, 255, (64, 80, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "shop" / label / f"{number}.jpg")
    return tmp_path / "shop"


def embeddings_in(folder):
    """By path: label and embedding."""
    found = {}
    for file in sorted(Path(folder).glob("*.parquet")):
        table = pq.read_table(file)
        for path, label, embedding in zip(
            *(table.column(name).to_pylist() for name in ("path", "label", "embedding")), strict=True
        ):
            assert path not in found
            found[path] = label, np.array(embedding)
    return found


@pytest.fixture
def local(shop, tmp_path):
    from xlda import backbones

    network = backbones.load()
    (tmp_path / "local").mkdir()
    embed_to_parquet(
        find_photos(shop), network, tmp_path / "local" / "all.parquet", backbone=network.identity
    )
    return embeddings_in(tmp_path / "local")


def assert_same_embeddings(found, local):
    assert set(found) == set(local)
    for path, (label, embedding) in local.items():
        assert found[path][0] == label
        np.testing.assert_allclose(found[path][1], embedding, atol=1e-4)


def test_photos_become_the_same_embeddings_and_only_what_is_missing_is_made_again(shop, local, tmp_path):
    out, done = tmp_path / "out", []
    summary = embed(shop, out, progress=done.append)
    assert (summary.n_embedded, summary.n_resumed, summary.skipped, sum(done)) == (180, 0, [], 180)
    assert_same_embeddings(embeddings_in(out), local)
    files = sorted(out.iterdir())
    assert len(files) == 2
    assert embedding_info(files[0]).name == "efficientnet-lite0"
    kept = files[1].stat().st_mtime_ns
    files[0].unlink()
    again = embed(shop, out)
    assert (again.n_embedded, again.n_resumed) == (128, 52)
    assert files[1].stat().st_mtime_ns == kept
    assert_same_embeddings(embeddings_in(out), local)
    assert fit(str(out)).backbone_.name == "efficientnet-lite0"


def test_an_actor_that_is_killed_costs_no_photo(shop, local, tmp_path, monkeypatch):
    import psutil

    monkeypatch.setattr("xlda.photos.parts.FEWEST", 12)
    out, killed = tmp_path / "out", []

    def kill_one():
        while not list(out.glob("*.parquet")):
            time.sleep(0.02)
        actors = [
            process
            for process in psutil.Process().children(recursive=True)
            if "MapWorker" in process.name() or "MapWorker" in " ".join(process.cmdline())
        ]
        killed.append(actors[0].pid)
        actors[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    summary = embed(shop, out)
    killer.join()
    assert killed
    assert summary.n_embedded + summary.n_resumed == 180
    assert_same_embeddings(embeddings_in(out), local)


def test_broken_photos_are_told_by_name(shop, tmp_path):
    (shop / "kiwi" / "bad.jpg").write_bytes(b"no photo")
    with pytest.raises(BadImage, match=r"kiwi/bad\.jpg is not a JPEG"):
        embed(shop, tmp_path / "out")
    summary = embed(shop, tmp_path / "out", on_error="skip")
    assert [photo.path.name for photo, _ in summary.skipped] == ["bad.jpg"]
    assert summary.n_embedded + summary.n_resumed == 180


def test_files_of_something_else_are_refused_or_replaced(shop, local, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    pq.write_table(pa.table({"x": [1]}), out / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet"):
        embed(shop, out)
    embed(shop, out, overwrite=True)
    with pytest.raises(ValueError, match="another dtype"):
        embed(shop, out, half=True)
    assert_same_embeddings(embeddings_in(out), local)


def test_photos_in_parquet_and_in_datasets_are_embedded_too(shop, local, tmp_path):
    paths = sorted(shop.rglob("*.jpg"))
    content = [path.read_bytes() for path in paths]
    labels = [path.parent.name for path in paths]
    table = pa.table({"bytes": content, "path": list(map(str, paths)), "label": labels})
    (tmp_path / "tables").mkdir()
    pq.write_table(table, tmp_path / "tables" / "photos.parquet", row_group_size=100)
    summary = embed(tmp_path / "tables", tmp_path / "out")
    assert summary.n_embedded == 180
    assert_same_embeddings(embeddings_in(tmp_path / "out"), local)
    for name, rows in {
        "bytes": ray.data.from_arrow(table),
        "structs": ray.data.from_arrow(
            pa.table(
                {
                    "image": [
                        {"bytes": one, "path": str(path)} for one, path in zip(content, paths, strict=True)
                    ],
                    "label": labels,
                }
            )
        ),
    }.items():
        assert embed(rows, tmp_path / name).n_embedded == 180
        assert_same_embeddings(embeddings_in(tmp_path / name), local)
    assert embed(rows, tmp_path / name).n_resumed == 180
    images = ray.data.read_images(str(shop), include_paths=True, mode="RGB")
    assert embed(images, tmp_path / "images").n_embedded == 180
    found = embeddings_in(tmp_path / "images")
    for path, (_, embedding) in local.items():
        cosine = found[path][1] @ embedding / np.linalg.norm(found[path][1]) / np.linalg.norm(embedding)
        assert cosine > 0.95  # decoded at full size there


def test_the_commands_work_on_ray_too(shop, tmp_path, capsys):
    assert run(["embed", str(shop), "--out", "embeddings", "--ray", "local"]) == 0
    assert run(["fit", "embeddings", "--out", "shop.xlda", "--ray", "local"]) == 0
    assert "shop.xlda: 180 samples of 3 classes" in capsys.readouterr().out
    clf = xlda.load("shop.xlda")
    assert clf.class_count_.tolist() == [60, 60, 60]
    assert clf.backbone_.name == "efficientnet-lite0"
    assert run(["fit", "embeddings", "--out", "b.xlda", "--ray", "local", "--only", "kiwi"]) == 2


# -- what is wrong is told as without Ray

START = "import sys; from xlda.cli import main; sys.exit(main())"


@pytest.fixture
def few(rng, tmp_path, monkeypatch):
    """200 samples of 5 classes, and the folder of the test as the one that commands see."""
    monkeypatch.chdir(tmp_path)
    X, y = blobs(rng, n_samples=200, n_classes=5, dtype=np.float32)
    return X, np.array([f"class {label}" for label in y])


def write_table(file, X, y):
    Path(file).parent.mkdir(exist_ok=True)
    columns = {"embedding": list(X)} if y is None else {"embedding": list(X), "label": list(y)}
    pq.write_table(pa.table(columns), file)


def write_embedded(file, X, y, views):
    """As `xlda embed --views` would."""
    backbone = BackboneIdentity.of("tiny", "v1", {"size": 8, "views": views}, width=X.shape[1])
    Path(file).parent.mkdir(exist_ok=True)
    with EmbeddingWriter(file, X.shape[1], backbone=backbone) as writer:
        writer.write(X, [Photo(Path(f"{number}.jpg"), label) for number, label in enumerate(y)])
    return backbone


def told(capsys, *arguments):
    """What a command that fails says, which is one line."""
    assert run(list(arguments)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0].removeprefix("xlda: ")


def test_embeddings_of_another_backbone_are_refused_in_the_same_words(few, capsys):
    X, y = few
    write_embedded("two/0.parquet", X, y, views=2)
    write_embedded("one/0.parquet", X, y, views=1)
    clf = fit("two")
    clf.save("shop.xlda")
    assert evaluate("two", "shop.xlda")["samples"] == predict("two", clf).count() == 200
    expected = told(capsys, "evaluate", "shop.xlda", "one/0.parquet")
    assert (
        expected == "shop.xlda was made with the backbone tiny (views 2); got embeddings of tiny (views 1)."
    )
    for asked in (evaluate, predict):
        with pytest.raises(OtherBackboneError) as caught:
            asked("one", "shop.xlda")
        assert str(caught.value) == expected
        with pytest.raises(OtherBackboneError, match=r"views 2.*; got embeddings of tiny .views 1"):
            asked("one", clf)
        with pytest.raises(OtherBackboneError, match="The first of these files"):
            asked(["one", "two"], XLDA().fit(X, y))
    with pytest.raises(OtherBackboneError, match="The first of these files"):
        fit(["one/0.parquet", "two/0.parquet"])


def test_samples_without_labels_are_not_taken_for_wrong_answers(few):
    X, y = few
    clf = XLDA().fit(X, y)
    write_table("none/0.parquet", X, None)
    write_table("null/0.parquet", X, [None] * len(X))
    write_table("some/0.parquet", X, y)
    write_table("some/1.parquet", X, [*y[:150], None, *y[151:]])
    for folder, problem in {
        "none": r"none/0\.parquet, row 0: no column 'label'",
        "null": r"null/0\.parquet, row 0: .*no label",
        "some": r"some/1\.parquet, row 150: .*no label",
    }.items():
        with pytest.raises(SourceError, match=problem):
            evaluate(folder, clf)
    with pytest.raises(SourceError, match="no label"):
        evaluate(ray.data.from_items([{"embedding": x, "label": None} for x in X[:9]]), clf)
    integers = XLDA().fit(X, np.arange(200) % 5)
    write_table("numbers/0.parquet", X, [3, None, *[4] * 198])
    with pytest.raises(SourceError, match=r"0\.parquet, row 1: .*no label"):
        evaluate("numbers", integers)


def broken(kind, X, y):
    """Files in a folder `parts` of which the second is wrong, and where that is."""
    X, y = X.copy(), y.astype(object)
    row, n_features = 0, X.shape[1]
    if kind == "NaN":
        X[row := 7, 2] = np.nan
    elif kind == "no label":
        y[row := 3] = None
    elif kind == "features":
        n_features -= 1
    write_table("parts/0.parquet", np.nan_to_num(X), ["class 1"] * len(X))
    write_table("parts/1.parquet", X[:, :n_features], None if kind == "no column 'label'" else y)
    return f"parts/1.parquet, row {row}: "


def test_files_that_cannot_be_predicted_are_refused_at_once(few):
    X, y = few
    clf = XLDA().fit(X, y)
    write_embedded("narrow/0.parquet", X[:, 1:], y, views=2)
    with pytest.raises(SourceError, match=r"narrow/0\.parquet, row 0: .* 7 features; the model has 8"):
        predict("narrow", clf)
    Path("other").mkdir()
    pq.write_table(pa.table({"label": list(y)}), "other/0.parquet")
    with pytest.raises(SourceError, match="no column 'embedding'; it has 'label'"):
        predict("other", clf)
    with pytest.raises(FileNotFoundError):
        predict("narrow", "none.xlda")


@pytest.mark.parametrize("kind", ["NaN", "no label", "no column 'label'", "features"])
def test_what_is_wrong_in_a_worker_is_told_in_a_sentence(kind, few, capsys):
    X, y = few
    place = broken(kind, X, y)
    clf = XLDA().fit(X, y)
    with pytest.raises(SourceError) as local:
        XLDA().fit_source("parts", progress=False)
    for asked in (lambda: fit("parts", workers=2), lambda: evaluate("parts", clf)):
        with pytest.raises(SourceError) as caught:
            asked()
        text = str(caught.value)
        assert type(caught.value) is type(local.value)
        assert place in text
        assert kind in text
        assert "\x1b" not in text
        assert "\n" not in text
        assert len(text) < 300
    assert place in told(capsys, "fit", "parts", "--out", "m.xlda", "--ray", "local")


def test_a_dataset_that_cannot_be_learned_is_told_in_a_sentence(few):
    X, y = few
    rows = [{"embedding": x, "label": str(name)} for x, name in zip(X, y, strict=True)]
    rows[5] = {**rows[5], "label": None}
    with pytest.raises(SourceError, match=r"^a block of the dataset, row \d+: .*no label.*$"):
        fit(ray.data.from_items(rows))
    with pytest.raises(ValueError, match=r"^The dataset has no column 'label'; .*$"):
        fit(ray.data.from_items([{"embedding": [1.0]}]))


def test_an_error_of_a_source_goes_to_another_process_as_it_is():
    with pytest.raises(SourceError) as caught:
        XLDA().fit_source((np.full((2, 2), np.nan), ["a", "b"]), progress=False)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.position) == (SourceError, str(caught.value), ("", 0))
    assert "go on with resume" in str(again)


def test_an_actor_that_cannot_begin_says_why(shop, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^No backbone 'nonesuch'"):
        embed(shop, tmp_path / "out", backbone="nonesuch")
    with pytest.raises(ValueError, match=r"^Photos are in a column bytes"):
        embed(ray.data.from_items([{"x": 1}]), tmp_path / "out")


def test_an_address_where_nothing_listens_is_told_soon(few):
    write_table("parts/0.parquet", *few)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{held.getsockname()[1]}"
        command = [sys.executable, "-c", START, "fit", "parts", "--out", "m.xlda", "--ray", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert address in done.stderr


def test_a_dataset_is_of_the_backbone_that_is_said(few):
    X, y = few
    one = write_embedded("one/0.parquet", X, y, views=1)
    other = write_embedded("two/0.parquet", X, y, views=2)
    dataset = ray.data.read_parquet(str(Path("one").absolute()))
    assert fit(dataset).backbone_ is None
    assert fit(dataset, backbone=one).backbone_ == one
    assert fit("one", backbone=one).backbone_ == one
    with pytest.raises(OtherBackboneError, match="views 2"):
        fit("one", backbone=other)


def test_a_folder_of_embeddings_is_learned_without_ray_too(few, capsys):
    from PIL import Image

    X, y = few
    write_embedded("parts/0.parquet", X[:90], y[:90], views=2)
    backbone = write_embedded("parts/1.parquet", X[90:], y[90:], views=2)
    assert run(["fit", "parts", "--out", "m.xlda"]) == 0
    assert "m.xlda: 200 samples of 5 classes" in capsys.readouterr().out
    assert xlda.load("m.xlda").backbone_ == backbone
    for command in ("evaluate", "predict", "learn"):
        assert run([command, "m.xlda", "parts"]) == 0, command
    assert xlda.load("m.xlda").class_count_.sum() == 400
    assert told(capsys, "fit", ".", "--out", "n.xlda").startswith("No photos in .")
    for label in ("kiwi", "apple"):
        Path("parts", label).mkdir()
        Image.new("RGB", (40, 40), "green" if label == "kiwi" else "red").save(f"parts/{label}/1.jpg")
    assert run(["fit", "parts", "--out", "photos.xlda"]) == 0
    assert "photos.xlda: 2 samples of 2 classes" in capsys.readouterr().out  # as before
