"""`tf.contrib.tensorboard.plugins.projector`: what TensorBoard shows of embeddings."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import sparkflow as tf

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]
_FILE = "projector_config.pbtxt"


@dataclass(slots=True)
class SpriteMetadata:
    """Pictures of the points: a file of them, and the size of one."""

    image_path: str = ""
    single_image_dim: list[int] = field(default_factory=list)


@dataclass(slots=True)
class EmbeddingInfo:
    """One embedding: the variable's name, and files that describe its rows."""

    tensor_name: str = ""
    metadata_path: str = ""
    bookmarks_path: str = ""
    tensor_shape: list[int] = field(default_factory=list)
    sprite: SpriteMetadata = field(default_factory=SpriteMetadata)
    tensor_path: str = ""


class _Embeddings(list[EmbeddingInfo]):
    """Embeddings, added as to a message."""

    def add(self, **fields: Any) -> EmbeddingInfo:
        """Appends an embedding with these fields and returns it."""
        self.append(EmbeddingInfo(**fields))
        return self[-1]


@dataclass(slots=True)
class ProjectorConfig:
    """The projector's configuration: a checkpoint, and embeddings in it."""

    model_checkpoint_path: str = ""
    embeddings: _Embeddings = field(default_factory=_Embeddings)
    model_checkpoint_dir: str = ""

    def to_text(self) -> str:
        """The message in protocol buffers' text form."""
        lines = [f"model_checkpoint_path: {json.dumps(self.model_checkpoint_path)}"]
        lines = lines if self.model_checkpoint_path else []
        for each in self.embeddings:
            lines.append("embeddings {")
            for name in ("tensor_name", "metadata_path", "bookmarks_path"):
                if getattr(each, name):
                    lines.append(f"  {name}: {json.dumps(getattr(each, name))}")
            lines += [f"  tensor_shape: {size}" for size in each.tensor_shape]
            if each.sprite.image_path or each.sprite.single_image_dim:
                lines.append("  sprite {")
                if each.sprite.image_path:
                    lines.append(f"    image_path: {json.dumps(each.sprite.image_path)}")
                lines += [f"    single_image_dim: {size}" for size in each.sprite.single_image_dim]
                lines.append("  }")
            if each.tensor_path:
                lines.append(f"  tensor_path: {json.dumps(each.tensor_path)}")
            lines.append("}")
        if self.model_checkpoint_dir:
            lines.append(f"model_checkpoint_dir: {json.dumps(self.model_checkpoint_dir)}")
        return "".join(f"{line}\n" for line in lines)


def visualize_embeddings(summary_writer: Any, config: ProjectorConfig) -> None:
    """Writes a configuration next to a writer's events, where TensorBoard looks for it.

    Args:
        summary_writer: A `FileWriter`, or the path of its directory.
        config: What to show.

    Raises:
        ValueError: The writer has no directory.
    """
    directory = summary_writer if isinstance(summary_writer, str) else summary_writer.get_logdir()
    if not directory:
        raise ValueError("Expected logdir, got None.")
    tf.gfile.MakeDirs(directory)
    with tf.gfile.GFile(os.path.join(directory, _FILE), "w") as file:
        file.write(config.to_text())
