"""Small models of published packages with random weights, and inputs for them.

A builder returns a module and its inputs. The modules in `BUILDERS` return a single tensor.
Builders import their packages themselves, so that a package that is not installed is skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from fuzz.torch_lines import words
from torch import nn

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]
BUILDERS: dict[str, tuple[str, Callable[[], Built]]] = {}  # by name: package, builder


class First(nn.Module):  # type: ignore[misc]
    """Returns only the first tensor of a module; `keywords` are passed with each call."""

    def __init__(self, inner: nn.Module, names: tuple[str, ...] = (), **keywords: Any) -> None:
        super().__init__()
        self.inner, self.names, self.keywords = inner, names, keywords

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        if self.names:
            result = self.inner(**dict(zip(self.names, inputs, strict=True)), **self.keywords)
        else:
            result = self.inner(*inputs, **self.keywords)
        return first(result)


def first(result: Any) -> torch.Tensor:
    """Return the first float tensor of a result with any structure."""
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values() if hasattr(result, "values") else result))
    return result


def model(package: str, name: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Return a decorator that enters a builder in the table."""

    def entered(build: Callable[[], Built]) -> Callable[[], Built]:
        BUILDERS[name] = package, build
        return build

    return entered


def declare_torchvision() -> None:
    """Let torchvision be imported where its compiled part, built for CUDA, does not load.

    Its operations for boxes are declared without an implementation; the models here use none.
    transformers, timm and others import torchvision where it is installed.
    """
    if importlib.util.find_spec("torchvision") and not hasattr(torch.ops.torchvision, "nms"):
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")


def ids(*shape: int, below: int = 30) -> torch.Tensor:
    return torch.randint(3, below, shape)


# --- Hugging Face transformers --------------------------------------------------------------------

NO_DROPOUT = words("""hidden_dropout_prob attention_probs_dropout_prob dropout attention_dropout
activation_dropout embd_pdrop attn_pdrop resid_pdrop dropout_rate hidden_dropout classifier_dropout
drop_path_rate layerdrop feat_proj_dropout final_dropout encoder_layerdrop decoder_layerdrop
embed_dropout resid_dropout qa_dropout seq_classif_dropout pooler_dropout classifier_dropout_prob
ffn_dropout stochastic_depth_prob mask_time_prob embedding_dropout summary_first_dropout
hidden_dropout_rate drop_out_rate""")


def hugging_face(
    name: str, inputs: dict[str, torch.Tensor], kind: str = "Model", **options: Any
) -> Built:
    """Return the model of that name with a small configuration without dropout."""
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, f"{name}Config")(**options)
    for part in (config, *vars(config).values()):
        for key in NO_DROPOUT:
            if isinstance(getattr(part, key, None), float):
                setattr(part, key, 0.0)
    made = getattr(transformers, name + kind)(config)
    return First(made, tuple(inputs)), tuple(inputs.values())


ENCODER: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
DECODER = {**ENCODER, "num_key_value_heads": 1, "pad_token_id": 0}
IMAGE: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_channels": 3}
VISION: dict[str, Any] = {
    **IMAGE,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
TEXT: dict[str, tuple[str, dict[str, Any]]] = {
    "Bert": ("Model", ENCODER),
    "Roberta": ("Model", {**ENCODER, "max_position_embeddings": 24}),
    "Albert": ("Model", {**ENCODER, "embedding_size": 8}),
    "Electra": ("Model", {**ENCODER, "embedding_size": 8}),
    "DebertaV2": (
        "Model",
        {**ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "DistilBert": (
        "Model",
        {"vocab_size": 30, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    ),
    "MPNet": ("Model", {**ENCODER, "max_position_embeddings": 24}),
    "SqueezeBert": (
        "Model",
        {**ENCODER, "embedding_size": 16}
        | {f"{part}_groups": 1 for part in ("q", "k", "v", "post_attention", "output")},
    ),
    "MobileBert": (
        "Model",
        {**ENCODER, "embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8},
    ),
    "RoFormer": ("Model", {**ENCODER, "embedding_size": 16}),
    "NomicBert": ("Model", ENCODER),
    "ModernBert": ("Model", {**ENCODER, "pad_token_id": 0}),
    "FNet": ("Model", ENCODER),
    "GPT2": ("LMHeadModel", {"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 2}),
    "GPTNeo": (
        "Model",
        {**ENCODER, "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]},
    ),
    "GPTNeoX": ("Model", ENCODER),
    "GPTJ": (
        "Model",
        {"vocab_size": 30, "n_embd": 16, "n_layer": 1, "n_head": 2, "rotary_dim": 4},
    ),
    "OPT": ("Model", {**ENCODER, "ffn_dim": 24, "word_embed_proj_dim": 16}),
    "Bloom": ("Model", {"vocab_size": 30, "hidden_size": 16, "n_layer": 2, "n_head": 2}),
    "Llama": ("ForCausalLM", DECODER),
    "Mistral": ("Model", DECODER),
    "Qwen2": ("Model", DECODER),
    "Qwen3": ("Model", {**DECODER, "head_dim": 8}),
    "Gemma": ("Model", {**DECODER, "head_dim": 8}),
    "Gemma2": ("Model", {**DECODER, "head_dim": 8}),
    "Phi": ("Model", DECODER),
    "StableLm": ("Model", DECODER),
    "Falcon": ("Model", {**ENCODER, "new_decoder_architecture": False}),
    "Starcoder2": ("Model", DECODER),
    "Cohere": ("Model", DECODER),
    "Olmo2": ("Model", DECODER),
    "Granite": ("Model", DECODER),
    "Mamba": (
        "Model",
        {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4},
    ),
}
for _name, (_kind, _options) in TEXT.items():
    BUILDERS[f"{_name}{_kind}"] = (
        "transformers",
        lambda name=_name, kind=_kind, options=_options: hugging_face(  # type: ignore[misc]
            name, {"input_ids": ids(2, 6)}, kind, **options
        ),
    )

IMAGES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ViT": ("Model", 8, VISION),
    "DeiT": ("Model", 8, VISION),
    "Beit": ("Model", 8, VISION),
    "Dinov2": ("Model", 8, VISION),
    "ViTMSN": ("Model", 8, VISION),
    "CLIPVision": ("Model", 8, VISION),
    "SiglipVision": ("Model", 8, VISION),
    "Swin": (
        "Model",
        16,
        {
            "image_size": 16,
            "patch_size": 2,
            "embed_dim": 8,
            "depths": [2, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
    ),
    "ConvNext": ("Model", 32, {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2}),
    "ConvNextV2": ("Model", 32, {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2}),
    "ResNet": (
        "ForImageClassification",
        16,
        {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1], "layer_type": "basic"},
    ),
    "RegNet": (
        "Model",
        16,
        {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1], "groups_width": 2},
    ),
    "MobileNetV1": ("Model", 16, {"image_size": 16, "depth_multiplier": 0.1, "min_depth": 4}),
    "MobileNetV2": (
        "Model",
        16,
        {"image_size": 16, "depth_multiplier": 0.1, "min_depth": 4, "depth_divisible_by": 4},
    ),
    "Segformer": (
        "Model",
        32,
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [4, 8],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
            "patch_sizes": [3, 3],
            "strides": [2, 2],
        },
    ),
    "PoolFormer": (
        "Model",
        32,
        {
            "hidden_sizes": [4, 8],
            "depths": [1, 1],
            "num_encoder_blocks": 2,
            "patch_sizes": [3, 3],
            "strides": [2, 2],
            "padding": [1, 1],
        },
    ),
    "MobileViT": (
        "Model",
        32,
        {"image_size": 32, "hidden_sizes": [8, 8, 8], "neck_hidden_sizes": [4, 4, 8, 8, 8, 8, 8]},
    ),
    "Cvt": (
        "Model",
        16,
        {
            "patch_sizes": [3],
            "patch_stride": [2],
            "patch_padding": [1],
            "embed_dim": [8],
            "num_heads": [2],
            "depth": [1],
            "mlp_ratio": [2.0],
            "attention_drop_rate": [0.0],
            "drop_rate": [0.0],
            "drop_path_rate": [0.0],
            "qkv_bias": [True],
            "cls_token": [True],
            "qkv_projection_method": ["dw_bn"],
            "kernel_qkv": [3],
            "padding_kv": [1],
            "stride_kv": [1],
            "padding_q": [1],
            "stride_q": [1],
        },
    ),
}
for _name, (_kind, _size, _options) in IMAGES.items():
    BUILDERS[f"{_name}{_kind}"] = (
        "transformers",
        lambda name=_name, kind=_kind, size=_size, options=_options: hugging_face(  # type: ignore[misc]
            name,
            {"pixel_values": torch.randn(4 if "Mobile" in name else 2, 3, size, size)},
            kind,
            **options,
        ),
    )


@model("transformers", "T5Model")
def _t5() -> Built:
    options: dict[str, Any] = {
        "vocab_size": 30,
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 24,
        "num_layers": 1,
    }
    both = {"input_ids": ids(2, 5), "decoder_input_ids": ids(2, 4)}
    return hugging_face("T5", both, num_heads=2, **options)


@model("transformers", "BartModel")
def _bart() -> Built:
    options: dict[str, Any] = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in
               {"layers": 1, "attention_heads": 2, "ffn_dim": 24}.items()}  # fmt: skip
    both = {"input_ids": ids(2, 5), "decoder_input_ids": ids(2, 4)}
    return hugging_face(
        "Bart", both, vocab_size=30, d_model=16, max_position_embeddings=16, **options
    )


@model("transformers", "WhisperEncoder")
def _whisper() -> Built:
    transformers = importlib.import_module("transformers")
    encoder = importlib.import_module("transformers.models.whisper.modeling_whisper").WhisperEncoder
    config = transformers.WhisperConfig(
        d_model=16,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=24,
        num_mel_bins=4,
        max_source_positions=8,
        dropout=0.0,
    )
    return First(encoder(config)), (torch.randn(2, 4, 16),)


@model("transformers", "Wav2Vec2Model")
def _wav2vec2() -> Built:
    return hugging_face(
        "Wav2Vec2",
        {"input_values": torch.randn(2, 64)},
        **{k: v for k, v in ENCODER.items() if k not in ("max_position_embeddings",)},
        conv_dim=(8, 8),
        conv_kernel=(4, 3),
        conv_stride=(2, 2),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        apply_spec_augment=False,
        mask_time_prob=0.0,
    )


@model("transformers", "CLIPModel")
def _clip() -> Built:
    text = {**ENCODER, "num_hidden_layers": 1}
    both = {"input_ids": ids(2, 5), "pixel_values": torch.randn(2, 3, 8, 8)}
    return hugging_face("CLIP", both, text_config=text, vision_config=VISION, projection_dim=8)


@model("transformers", "ASTModel")
def _ast() -> Built:
    return hugging_face(
        "AST",
        {"input_values": torch.randn(2, 16, 8)},
        **{k: v for k, v in VISION.items() if k not in ("image_size", "num_channels")},
        frequency_stride=4,
        time_stride=4,
        max_length=16,
        num_mel_bins=8,
    )


# --- torchvision ----------------------------------------------------------------------------------


def vision(name: str) -> Any:
    """Return a module of torchvision.models."""
    return importlib.import_module(f"torchvision.models.{name}")


def image(size: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, 3, size, size),)


@model("torchvision", "torchvision MobileNetV2")
def _mobilenet_v2() -> Built:
    settings = [[1, 4, 1, 1], [6, 8, 2, 2]]
    made = vision("mobilenetv2").MobileNetV2(
        5, 0.25, inverted_residual_setting=settings, dropout=0.0
    )
    return made, image(16)


@model("torchvision", "torchvision MobileNetV3")
def _mobilenet_v3() -> Built:
    module = vision("mobilenetv3")
    setting = module.InvertedResidualConfig
    blocks = [
        setting(8, 3, 8, 8, True, "RE", 2, 1, 1.0),
        setting(8, 3, 16, 8, False, "HS", 1, 1, 1.0),
    ]
    return module.MobileNetV3(blocks, 16, 5, dropout=0.0), image(16)


@model("torchvision", "torchvision ShuffleNetV2")
def _shufflenet() -> Built:
    made = vision("shufflenetv2").ShuffleNetV2([2, 1, 1], [4, 8, 8, 8, 16], 5)
    return made, image(32)


@model("torchvision", "torchvision DenseNet")
def _densenet() -> Built:
    return vision("densenet").DenseNet(4, (2, 2), 8, 2, num_classes=5), image(32)


@model("torchvision", "torchvision MNASNet")
def _mnasnet() -> Built:
    return vision("mnasnet").MNASNet(0.1, 5, 0.0), image(32)


@model("torchvision", "torchvision SqueezeNet Fire")
def _fire() -> Built:
    module = vision("squeezenet")
    made = nn.Sequential(nn.Conv2d(3, 8, 3), module.Fire(8, 4, 4, 4), module.Fire(8, 4, 4, 4))
    return made, image(8)


@model("torchvision", "torchvision ResNet")
def _resnet() -> Built:
    module = vision("resnet")
    made = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        module.BasicBlock(4, 4),
        module.Bottleneck(4, 2, downsample=nn.Conv2d(4, 8, 1, 2), stride=2),
    )
    return made, image(10)


@model("torchvision", "torchvision ConvNeXt")
def _convnext() -> Built:
    module = vision("convnext")
    settings = [module.CNBlockConfig(4, 8, 1), module.CNBlockConfig(8, None, 1)]
    return module.ConvNeXt(settings, 0.0, num_classes=5), image(16)


@model("torchvision", "torchvision VisionTransformer")
def _vision_transformer() -> Built:
    return vision("vision_transformer").VisionTransformer(8, 4, 1, 2, 16, 24, num_classes=5), image(
        8
    )


@model("torchvision", "torchvision SwinTransformer")
def _swin() -> Built:
    made = vision("swin_transformer").SwinTransformer(
        [2, 2], 8, [1, 1], [2, 2], [2, 2], stochastic_depth_prob=0.0, num_classes=5
    )
    return made, image(16)


@model("torchvision", "torchvision Inception")
def _inception() -> Built:
    module = vision("googlenet")
    return nn.Sequential(module.Inception(3, 4, 2, 4, 2, 4, 4)), image(8)


# --- timm, segmentation_models_pytorch ------------------------------------------------------------


def timm_model(name: str, **options: Any) -> nn.Module:
    made: nn.Module = importlib.import_module("timm").create_model(name, num_classes=5, **options)
    return made


TIMM: dict[str, tuple[str, int, dict[str, Any]]] = {
    "timm CaiT": (
        "cait_xxs24_224",
        8,
        {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2},
    ),
    "timm ViT with register tokens": (
        "vit_tiny_patch16_224",
        8,
        {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2}
        | {"reg_tokens": 1},
    ),
    "timm EfficientNet": ("test_efficientnet", 32, {}),
    "timm ResNet": ("test_resnet", 32, {}),
    "timm ByobNet": ("test_byobnet", 32, {}),
    "timm NFNet": ("test_nfnet", 32, {}),
}
for _title, (_name, _size, _options) in TIMM.items():
    BUILDERS[_title] = (
        "timm",
        lambda name=_name, size=_size, options=_options: (  # type: ignore[misc]
            timm_model(name, **options),
            image(size),
        ),
    )


@model("timm", "timm MLP-Mixer")
def _mixer() -> Built:
    made = of("timm.models.mlp_mixer.MlpMixer", 5, 8, patch_size=4, num_blocks=1, embed_dim=8)
    return made, image(8)


@model("timm", "timm ConvMixer")
def _conv_mixer() -> Built:
    made = of("timm.models.convmixer.ConvMixer", 8, 2, kernel_size=3, patch_size=2, num_classes=5)
    return made, image(8)


# --- graphs ---------------------------------------------------------------------------------------

EDGES = [[0, 1, 1, 2, 3, 4, 0, 3], [1, 0, 2, 1, 4, 3, 3, 0]]


def graph_layer(name: str, *sizes: int, **options: Any) -> Built:
    layers = importlib.import_module("torch_geometric.nn")
    made = getattr(layers, name)(*sizes, **options)
    return First(made), (torch.randn(5, 4), torch.tensor(EDGES))


GRAPHS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "GCNConv": ((4, 3), {}),
    "GraphConv": ((4, 3), {}),
    "SAGEConv": ((4, 3), {}),
    "GATConv": ((4, 3), {"heads": 2}),
    "GATv2Conv": ((4, 3), {"heads": 2}),
    "TransformerConv": ((4, 3), {}),
    "TAGConv": ((4, 3), {"K": 2}),
    "SGConv": ((4, 3), {}),
    "ChebConv": ((4, 3, 2), {}),
    "LEConv": ((4, 3), {}),
    "ClusterGCNConv": ((4, 3), {}),
    "FeaStConv": ((4, 3), {}),
}
for _name, (_sizes, _options) in GRAPHS.items():
    BUILDERS[_name] = (
        "torch_geometric",
        lambda name=_name, sizes=_sizes, options=_options: graph_layer(  # type: ignore[misc]
            name, *sizes, **options
        ),
    )


@model("torch_geometric", "GINConv")
def _gin() -> Built:
    return graph_layer("GINConv", nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)))


@model("torch_geometric", "EdgeConv")
def _edge() -> Built:
    return graph_layer("EdgeConv", nn.Sequential(nn.Linear(8, 3)))


# --- others ---------------------------------------------------------------------------------------


def of(path: str, *sizes: Any, **options: Any) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)(*sizes, **options)


@model("x_transformers", "x-transformers decoder")
def _x_decoder() -> Built:
    layers = of("x_transformers.Decoder", dim=16, depth=1, heads=2, attn_dim_head=8)
    made = of("x_transformers.TransformerWrapper", num_tokens=30, max_seq_len=8, attn_layers=layers)
    return First(made), (ids(2, 6),)


@model("x_transformers", "x-transformers encoder with rotary embeddings")
def _x_encoder() -> Built:
    layers = of(
        "x_transformers.Encoder",
        dim=16, depth=1, heads=2, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True,
    )  # fmt: skip
    made = of("x_transformers.TransformerWrapper", num_tokens=30, max_seq_len=8, attn_layers=layers)
    return First(made), (ids(2, 6),)


def vit(path: str, **options: Any) -> Built:
    sizes = {"image_size": 8, "patch_size": 4, "num_classes": 5, "dim": 16, "depth": 1, "heads": 2}
    return First(of(path, **sizes, **options)), image(8)


@model("vit_pytorch", "vit-pytorch ViT")
def _vit() -> Built:
    return vit("vit_pytorch.vit.ViT", mlp_dim=24)


@model("vit_pytorch", "vit-pytorch SimpleViT")
def _simple_vit() -> Built:
    return vit("vit_pytorch.simple_vit.SimpleViT", mlp_dim=24)


@model("vit_pytorch", "vit-pytorch DeepViT")
def _deep_vit() -> Built:
    return vit("vit_pytorch.deepvit.DeepViT", mlp_dim=24)


@model("perceiver_pytorch", "Perceiver")
def _perceiver() -> Built:
    made = of(
        "perceiver_pytorch.Perceiver",
        num_freq_bands=2, depth=1, max_freq=4.0, input_channels=3, input_axis=2, num_latents=4,
        latent_dim=8, cross_heads=1, latent_heads=2, cross_dim_head=4, latent_dim_head=4,
        num_classes=3, self_per_cross_attn=1,
    )  # fmt: skip
    return made, (torch.randn(2, 4, 4, 3),)


@model("linformer", "Linformer")
def _linformer() -> Built:
    return of("linformer.Linformer", dim=8, seq_len=6, depth=1, heads=2, k=3), (
        torch.randn(2, 6, 8),
    )


@model("performer_pytorch", "Performer attention")
def _performer() -> Built:
    made = of(
        "performer_pytorch.SelfAttention", dim=8, heads=2, dim_head=4, causal=False, nb_features=8
    )
    return made, (torch.randn(2, 5, 8),)


@model("axial_attention", "Axial attention")
def _axial() -> Built:
    made = of("axial_attention.AxialAttention", dim=4, dim_index=1, heads=2, num_dimensions=2)
    return made, (torch.randn(2, 4, 3, 3),)


@model("einops", "einops layers")
def _einops() -> Built:
    made = nn.Sequential(
        of("einops.layers.torch.Rearrange", "b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2),
        of("einops.layers.torch.EinMix", "b t c -> b t d", weight_shape="c d", bias_shape="d", c=12, d=6),
        of("einops.layers.torch.Reduce", "b t d -> b d", "mean"),
    )  # fmt: skip
    return made, (torch.randn(2, 3, 4, 4),)


@model("monai", "MONAI UNet")
def _unet() -> Built:
    made = of("monai.networks.nets.UNet", 2, 1, 2, (4, 8), (2,), num_res_units=1, norm="batch")
    return made, (torch.randn(2, 1, 8, 8),)


@model("monai", "MONAI SegResNet")
def _segresnet() -> Built:
    made = of("monai.networks.nets.SegResNet", 2, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,))
    return made, (torch.randn(2, 1, 8, 8),)


@model("monai", "MONAI ViT")
def _monai_vit() -> Built:
    made = of("monai.networks.nets.ViT", 1, (8, 8), (4, 4), 16, 24, 1, 2, spatial_dims=2)
    return First(made), (torch.randn(2, 1, 8, 8),)


@model("kornia", "kornia Sobel and blur")
def _kornia() -> Built:
    made = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        of("kornia.filters.GaussianBlur2d", (3, 3), (1.0, 1.0)),
        of("kornia.filters.Sobel"),
    )
    return made, (torch.randn(2, 1, 8, 8),)


@model("efficientnet_pytorch", "EfficientNet block")
def _efficientnet() -> Built:
    utils = importlib.import_module("efficientnet_pytorch.utils")
    block = importlib.import_module("efficientnet_pytorch.model").MBConvBlock
    common = utils.GlobalParams(1.0, 1.0, 8, 0.0, 5, 0.99, 1e-3, 0.0, 8, None, True)
    arguments = utils.BlockArgs(1, 3, 1, 2, 4, 4, 0.25, True)
    return block(arguments, common), (torch.randn(2, 4, 8, 8),)


@model("entmax", "sparsemax layer")
def _sparsemax() -> Built:
    return nn.Sequential(nn.Linear(4, 5), of("entmax.Sparsemax", -1)), (torch.randn(3, 4),)


@model("nflows", "masked autoregressive network")
def _made() -> Built:
    made = of("nflows.transforms.made.MADE", 4, 8, num_blocks=1)
    return made, (torch.randn(3, 4),)


@model("egnn_pytorch", "EGNN")
def _egnn() -> Built:
    made = of("egnn_pytorch.EGNN", dim=4, m_dim=4)
    return First(made), (torch.randn(1, 4, 4), torch.randn(1, 4, 3))


@model("pytorch_tabnet", "TabNet")
def _tabnet() -> Built:
    made = of(
        "pytorch_tabnet.tab_network.TabNetNoEmbeddings",
        5, 3, n_d=4, n_a=4, n_steps=2, virtual_batch_size=8,
    )  # fmt: skip
    return First(made), (torch.randn(8, 5),)


@model("e3nn", "e3nn gate")
def _e3nn() -> Built:
    made = of("e3nn.o3.Linear", "4x0e + 2x1o", "3x0e + 2x1o")
    return made, (torch.randn(3, 10),)


# --- torch itself ---------------------------------------------------------------------------------


@model("torch", "torch.nn.TransformerEncoder")
def _encoder() -> Built:
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 5, 8),)


@model("torch", "torch.nn.Transformer")
def _transformer() -> Built:
    made = nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)
    return made, (torch.randn(2, 5, 8), torch.randn(2, 4, 8))


@model("torch", "torch.nn.LSTM, two layers, both directions")
def _lstm() -> Built:
    return First(nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)), (torch.randn(2, 4, 4),)


@model("torch", "torch.nn.GRU")
def _gru() -> Built:
    return First(nn.GRU(4, 3, batch_first=True)), (torch.randn(2, 4, 4),)


@model("torch", "torch.nn.MultiheadAttention")
def _attention() -> Built:
    x = torch.randn(2, 4, 8)
    return First(nn.MultiheadAttention(8, 2, batch_first=True)), (x, x.clone(), x.clone())


@model("torch", "torch.nn.EmbeddingBag")
def _bag() -> Built:
    return nn.EmbeddingBag(30, 4, mode="mean"), (ids(2, 5),)
