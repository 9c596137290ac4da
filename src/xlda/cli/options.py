"""Arguments and options that several commands have, each spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xlda.photos.embedding import OnError

ModelFile = Annotated[Path, typer.Argument(help="Model file.", show_default=False, readable=False)]
Where = Annotated[
    list[str],
    typer.Argument(
        help="Photos: a folder with a folder for each class, a list of `path, label` lines (.txt, .csv, "
        ".tsv), a pattern or single files. Or embeddings: .parquet, .npz or .safetensors files with a "
        "column, array or tensor `embedding`, a row for each sample, and one `label` where that is needed.",
        show_default=False,
    ),
]
ModelOrNone = Annotated[
    Path | None, typer.Argument(help="Model file; none with --server.", show_default=False, readable=False)
]
WhereOrThere = Annotated[
    list[str] | None,
    typer.Argument(
        help="Photos: a folder with a folder for each class, a list of `path, label` lines (.txt, .csv, "
        ".tsv), a pattern or single files. Or, without --server, embeddings: .parquet, .npz or .safetensors "
        "files with a column, array or tensor `embedding`, a row for each sample, and one `label` where that "
        "is needed.",
        show_default=False,
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Address of a service that has the model, as http://127.0.0.1:8765.",
        show_default=False,
    ),
]
TokenFrom = Annotated[
    Path | None,
    typer.Option(
        "--token-from",
        help="File with the token for the service; else it is in the environment variable XLDA_TOKEN.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="File to write.", show_default=False)]
LabelOfAll = Annotated[
    str | None, typer.Option("--label", "-l", help="What all of them show, whatever their folders say.")
]
NewClass = Annotated[
    bool,
    typer.Option("--new-class", help="Take a label that is much like a known one for a new class, unasked."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Take this class alone; may be given again.", show_default=False),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="Leave this class out; may be given again.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Skip = Annotated[OnError, typer.Option("--on-error", help="What to do about a photo that cannot be read.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
BackboneName = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        "-b",
        help="efficientnet-lite0, which is the default, efficientnet-lite1 or efficientnet-lite2, perhaps "
        "with -int8, which is faster; or an ONNX file.",
        show_default=False,
    ),
]
OwnBackbone = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        "-b",
        help="Where the ONNX file of the model's backbone is, if not beside the model or here.",
        show_default=False,
    ),
]
Size = Annotated[
    int | None, typer.Option("--size", help="Pixels a side that the backbone sees.", show_default=False)
]
Views = Annotated[
    int | None,
    typer.Option(
        "--views",
        min=1,
        max=3,
        help="How often to look at each photo: 1 is fast; 2, the default, and 3 also look at its middle, "
        "enlarged, and recognise more.",
        show_default=False,
    ),
]
CutHead = Annotated[
    bool, typer.Option("--cut-head", help="Leave out the linear layer that the ONNX file ends with.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Work on a Ray cluster: its address, auto, or local for this machine. Needs the extra ray.",
        show_default=False,
    ),
]
