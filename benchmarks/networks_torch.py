"""The networks of `peers.py` as one writes them for PyTorch; eager, or with `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import networks as n
import numpy as np
from competitor import Case


def make(torch: Any, name: str, compiled: bool) -> Case | None:
    """Returns the case with this name; None if there is none."""
    if name not in n.NETWORKS:
        return None
    if compiled and name == "recommender":
        return None  # its gradients cannot be sparse
    loss, p, tensors = network(torch, name)
    optimizer = torch.optim.SGD(list(p.values()), n.RATE)
    computed = torch.compile(loss) if compiled else loss
    update = torch.compile(optimizer.step) if compiled else optimizer.step

    def call() -> float:
        optimizer.zero_grad()
        value = computed(p, tensors)
        value.backward()
        update()
        return float(value.detach())

    return Case(call, [call() for _ in range(5)])


def network(
    torch: Any, name: str, device: str = "cpu", sparse: bool = True
) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
    """Returns a network's loss as a function of parameters and data, and these.

    Args:
        torch: The module.
        name: A key of `networks.NETWORKS`.
        device: Where parameters and data are.
        sparse: Whether gradients of tables only have the rows that were looked up.
    """
    functional = torch.nn.functional
    values, data = n.NETWORKS[name]()
    if name.startswith("residual"):
        # PyTorch's default layout is channels first; the other one is `channels_last`.
        data = n.channels_first("nchw", data)
        for key in ("first", "second"):
            values[key] = np.ascontiguousarray(values[key].transpose(3, 2, 0, 1))
    layout = torch.channels_last if name == "residual_nhwc" else torch.contiguous_format
    tensors = {key: torch.from_numpy(np.asarray(each)).to(device) for key, each in data.items()}
    p = {key: torch.from_numpy(each).to(device) for key, each in values.items()}
    if name.startswith("residual"):
        tensors = {key: each.contiguous(memory_format=layout) for key, each in tensors.items()}
        for key in ("first", "second"):
            p[key] = p[key].contiguous(memory_format=layout)
    p = {key: each.requires_grad_() for key, each in p.items()}

    def transformer(p: Mapping[str, Any], d: Mapping[str, Any]) -> Any:
        x = d["x"]

        def heads(key: str) -> Any:
            return (x @ p[key]).view(n.ROWS, n.LENGTH, n.HEADS, -1).transpose(1, 2)

        def normal(h: Any, key: str) -> Any:
            scale, offset = p[f"{key}_scale"], p[f"{key}_offset"]
            return functional.layer_norm(h, (n.WIDTH,), scale, offset, n.EPSILON)

        seen = functional.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"))
        h = normal(x + seen.transpose(1, 2).reshape(-1, n.WIDTH) @ p["o"], "first")
        inner = functional.relu(h @ p["up"] + p["up_bias"])
        h = normal(h + inner @ p["down"] + p["down_bias"], "second")
        return (h - d["wanted"]).square().mean()

    def residual(p: Mapping[str, Any], d: Mapping[str, Any]) -> Any:
        def layer(h: Any, key: str) -> Any:
            h = functional.conv2d(h, p[key], padding=1)
            scale, offset = p[f"{key}_scale"], p[f"{key}_offset"]
            return functional.batch_norm(h, None, None, scale, offset, True, 0.0, n.EPSILON)

        h = functional.relu(layer(d["x"], "first"))
        h = functional.relu(layer(h, "second") + d["x"])
        return (h - d["wanted"]).square().mean()

    places = torch.from_numpy(n.PAIRS).to(device)

    def recommender(p: Mapping[str, Any], d: Mapping[str, Any]) -> Any:
        def dense(h: Any, key: str) -> Any:
            return h @ p[key] + p[f"{key}_bias"]

        low = functional.relu(dense(functional.relu(dense(d["numbers"], "low1")), "low2"))
        rows = [
            functional.embedding(d["ids"][i], p[f"table{i}"], sparse=sparse)
            for i in range(n.TABLES)
        ]
        together = torch.stack([low, *rows], 1)
        pairs = (together @ together.transpose(1, 2)).view(n.CLICKS, -1)[:, places]
        logits = dense(functional.relu(dense(torch.cat([low, pairs], 1), "top1")), "top2")
        return functional.binary_cross_entropy_with_logits(logits.view(-1), d["clicked"])

    losses = {"transformer": transformer, "recommender": recommender}
    return losses.get(name, residual), p, tensors
