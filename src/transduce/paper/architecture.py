"""Draws Figures 1 and 2 of the paper from the settings of a model."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from transduce.model.attention import AttentionSpec
from transduce.model.feed_forward import FeedForward
from transduce.model.mixer import MixerSpec
from transduce.model.transformer import Transformer
from transduce.paper.printing import panels
from transduce.recipe.presets import BASE
from transduce.settings import validated
from transduce.storage.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT, GAP = 0.62, 0.34  # of a box, and between two boxes; a box is 1 wide, and columns start at y = 0
INSIDE = 0.17  # the distance from the boxes of a layer to the frame around them
BETWEEN = 1.9  # the distance between the left edges of two columns
EMBEDDING, ATTENTION, NETWORK, NORM, OUTPUT = "#fbe3e1", "#fdebd0", "#d6eaf8", "#f6f3c9", "#e2e0f3"


class Box(NamedTuple):
    """A box of a drawn column, from which an arrow leads to the next box."""

    text: str
    color: str | None = None  # None: text without a frame, such as the name of an input
    skips: int = 0  # number of boxes that a residual connection skips before it arrives at this box
    repeated: int = 0  # number of boxes, this one included, that form a layer and end here
    side_input: str = ""  # text from which an arrow leads to the right edge
    reads_encoder: bool = False


def draw_figures(out: Path) -> list[Path]:
    """Draws both figures for the paper's base model into the folder `out`; returns the paths of the pictures."""
    spec = validated(Transformer, BASE["model"], place="base")
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "figure1.svg", out / "figure2.svg"]
    atomic_write(paths[0], partial(draw_model, spec))
    atomic_write(paths[1], partial(draw_attention, spec.cross))
    return paths


def draw_model(spec: Transformer, path: Path) -> None:
    """Draws Figure 1: the encoder and the decoder, with the sizes of `spec`."""
    encoder, decoder = encoder_boxes(spec), decoder_boxes(spec)
    with panels(path, ["Figure 1: the Transformer"], width=7.2, height=9.5) as (panel,):
        _draw_column(panel, encoder, 0, f"{spec.encoder_layers} ×")
        _draw_column(panel, decoder, BETWEEN, f"{spec.decoder_layers} ×")
        (reader,) = (place for place, box in enumerate(decoder) if box.reads_encoder)
        top, middle = (len(encoder) - 1) * (HEIGHT + GAP) + HEIGHT, BETWEEN - 0.5
        arrival = reader * (HEIGHT + GAP) + HEIGHT / 2
        panel.plot([0.5, 0.5, middle, middle], [top, top + GAP, top + GAP, arrival], color="black", linewidth=0.8)
        panel.annotate("", (BETWEEN, arrival), (middle, arrival), arrowprops={"arrowstyle": "->"})
        _set_limits(panel, len(decoder), BETWEEN)


def draw_attention(spec: AttentionSpec, path: Path) -> None:
    """Draws Figure 2: scaled dot-product attention, and multi-head attention, with the sizes of `spec`."""
    is_scaled = spec.compatibility.kind == "scaled_dot"
    head = [
        Box("Q, K"),
        Box("matrix multiplication, Q Kᵀ" if is_scaled else f"{spec.compatibility.kind} score of Q and K", ATTENTION),
        *([Box(f"scale by 1 / √{spec.d_k}", NORM)] if is_scaled else []),
        Box("mask (optional)", EMBEDDING),
        Box("softmax", NETWORK),
        Box("matrix multiplication", ATTENTION, side_input="V"),
    ]
    heads = [
        Box("Q, K, V"),
        Box(f"linear, for each of {spec.heads} heads\nd_k {spec.d_k}, d_v {spec.d_v}", OUTPUT),
        Box(f"attention\n{spec.heads} heads in parallel", ATTENTION),
        Box(f"concatenation\nwidth {spec.heads * spec.d_v}", NORM),
        Box("linear", OUTPUT),
    ]
    with panels(path, ["Figure 2: attention of one head (left), multi-head attention (right)"], width=7.2) as (panel,):
        _draw_column(panel, head, 0)
        _draw_column(panel, heads, BETWEEN)
        _set_limits(panel, max(len(head), len(heads)), BETWEEN)


def encoder_boxes(spec: Transformer) -> list[Box]:
    """Returns the boxes of the encoder, from its input to its output."""
    layer = [
        *_sublayer(spec, _mixing(spec.mixer, "multi-head attention"), ATTENTION),
        *_sublayer(spec, _network(spec), NETWORK),
    ]
    return [*_inputs(spec, "inputs"), *_as_layer(layer), *_last_norm(spec)]


def decoder_boxes(spec: Transformer) -> list[Box]:
    """Returns the boxes of the decoder, from its input to the probabilities."""
    layer = [
        *_sublayer(spec, _mixing(spec.mixer, "masked multi-head attention"), ATTENTION),
        *_sublayer(spec, _mixing(spec.cross, "multi-head attention"), ATTENTION, reads_encoder=True),
        *_sublayer(spec, _network(spec), NETWORK),
    ]
    readout = "linear\nwith the embedding matrix" if spec.readout.kind == "tied" else "linear"
    end = [Box(readout, OUTPUT), Box("softmax", NETWORK), Box("output probabilities")]
    return [*_inputs(spec, "outputs (shifted right)"), *_as_layer(layer), *_last_norm(spec), *end]


def _inputs(spec: Transformer, name: str) -> list[Box]:
    """Returns the boxes below the layers: the tokens, their embedding and the positions."""
    embedding = Box(f"embedding of width {spec.d_model}\ntimes √{spec.d_model}", EMBEDDING)
    positions = Box(f"+ {spec.positions.kind} positions\ndropout {spec.dropout:g}", EMBEDDING)
    return [Box(name), embedding, positions]


def _sublayer(spec: Transformer, text: str, color: str, *, reads_encoder: bool = False) -> list[Box]:
    """Returns the boxes of a sub-layer with its residual connection and norm."""
    sublayer = Box(text, color, reads_encoder=reads_encoder)
    if spec.norm == "post":
        return [sublayer, Box("add & norm", NORM, skips=1)]
    return [Box("norm", NORM), sublayer, Box("add", NORM, skips=2)]


def _as_layer(boxes: list[Box]) -> list[Box]:
    """Marks the boxes as one layer, which is drawn with a frame and its number of repetitions."""
    return [*boxes[:-1], boxes[-1]._replace(repeated=len(boxes))]


def _last_norm(spec: Transformer) -> list[Box]:
    """Returns the norm after the last layer, which only pre-norm has."""
    return [Box("norm", NORM)] if spec.norm == "pre" else []


def _mixing(mixer: MixerSpec, name: str) -> str:
    """Describes a mixer with its sizes; `name` is the name of attention at this place in the paper's figure."""
    if isinstance(mixer, AttentionSpec):
        return f"{name}\n{mixer.heads} heads, d_k {mixer.d_k}, d_v {mixer.d_v}"
    return mixer.kind.replace("_", " ")


def _network(spec: Transformer) -> str:
    """Describes the feed-forward network with its sizes."""
    network = spec.feed_forward
    inner = network if isinstance(network, FeedForward) else network.expert
    name = "feed-forward" if isinstance(network, FeedForward) else f"{network.chosen} of {network.number} experts"
    return f"{name}\n{spec.d_model} → {inner.d_ff:,} → {spec.d_model}"


def _draw_column(panel: "Axes", boxes: Sequence[Box], left: float, repetitions: str = "") -> None:
    """Draws boxes from the bottom to the top, with arrows, residual connections and the frame of the layer."""
    from matplotlib.patches import FancyBboxPatch

    step, middle, right = HEIGHT + GAP, left + 0.5, left + 1
    for place, box in enumerate(boxes):
        bottom = place * step
        centre = bottom + HEIGHT / 2
        if box.color is not None:
            corners = "round,pad=0,rounding_size=0.05"
            panel.add_patch(FancyBboxPatch((left, bottom), 1, HEIGHT, corners, fc=box.color, ec="#444444"))
        panel.text(middle, centre, box.text, ha="center", va="center", fontsize=8)
        if place + 1 < len(boxes):
            start = bottom + (HEIGHT if box.color else 0.75 * HEIGHT)
            panel.annotate("", (middle, bottom + step), (middle, start), arrowprops={"arrowstyle": "->"})
        if box.skips:
            start, beside = bottom - box.skips * step - GAP / 2, right + 0.1
            panel.plot([middle, beside, beside], [start, start, centre], color="black", linewidth=0.8)
            panel.annotate("", (right, centre), (beside, centre), arrowprops={"arrowstyle": "->"})
        if box.side_input:
            arrow = {"arrowstyle": "->"}
            panel.annotate(box.side_input, (right, centre), (right + 0.3, centre), va="center", arrowprops=arrow)
        if box.repeated:
            lowest = bottom - (box.repeated - 1) * step - GAP + 0.05
            frame = (left - INSIDE, lowest), 1 + 2 * INSIDE, bottom + HEIGHT + 0.08 - lowest
            panel.add_patch(FancyBboxPatch(*frame, "round,pad=0,rounding_size=0.08", fc="none", ls="--", ec="#667788"))
            beside, side = (left - INSIDE - 0.06, "right") if left == 0 else (right + INSIDE + 0.06, "left")
            panel.text(beside, (lowest + bottom + HEIGHT) / 2, repetitions, ha=side, va="center")


def _set_limits(panel: "Axes", boxes: int, last: float) -> None:
    """Fits the panel to columns of at most `boxes` boxes, the last of which has its left edge at `last`."""
    panel.set(xlim=(-0.55, last + 1.55), ylim=(0, boxes * (HEIGHT + GAP)))
    panel.grid(visible=False)
    panel.set_axis_off()
