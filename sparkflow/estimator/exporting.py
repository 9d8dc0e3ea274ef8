"""Writing a model and a checkpoint's variables as a SavedModel."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from absl import logging

from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.export_outputs import ExportOutput, PredictOutput
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.io import gfile
from sparkflow.saved_model.builder import SavedModelBuilder
from sparkflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from sparkflow.saved_model.signature_def_utils import is_valid_signature
from sparkflow.saved_model.tag_constants import SERVING
from sparkflow.session.session import Session
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.train.sessions.scaffold import Scaffold


def export_model(
    export_dir_base: Any,
    receiver: Any,
    spec: EstimatorSpec,
    checkpoint_path: str,
    session_config: Any,
    assets_extra: Mapping[str, str] | None,
    as_text: bool,
) -> bytes:
    """Writes the default graph; returns the new directory.

    Raises:
        ValueError: The specification has nothing to export.
    """
    outputs = _export_outputs(spec)
    signatures = signatures_of(receiver, outputs)
    directory = timestamped_directory(os.fsdecode(export_dir_base))
    parent, name = os.path.split(directory)
    temporary = os.path.join(parent, f"temp-{name}")
    with Session(config=session_config) as session:
        scaffold = spec.scaffold or Scaffold()
        local_init = scaffold.local_init_op or Scaffold.default_local_init_op()
        saver = scaffold.saver or next(iter(get_collection(GraphKeys.SAVERS)), None)
        (saver or Saver(sharded=True)).restore(session, checkpoint_path)
        builder = SavedModelBuilder(temporary)
        builder.add_meta_graph_and_variables(
            session,
            [SERVING],
            signature_def_map=signatures,
            assets_collection=get_collection(GraphKeys.ASSET_FILEPATHS),
            main_op=local_init,
        )
        builder.save(as_text)
    for target, source in (assets_extra or {}).items():
        path = os.path.join(temporary, "assets.extra", target)
        gfile.makedirs(os.path.dirname(path))
        gfile.copy(source, path)
    gfile.rename(temporary, directory)
    logging.info("SavedModel written to: %s", directory)
    return os.fsencode(directory)


def _export_outputs(spec: EstimatorSpec) -> dict[str, ExportOutput]:
    """The outputs by name, one of which is the default.

    Raises:
        ValueError: There are several and no default.
    """
    outputs = spec.export_outputs
    if outputs is None:
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(spec.predictions)}
    found = dict(outputs)
    if len(found) == 1:
        (only,) = found.values()
        found[DEFAULT_SERVING_SIGNATURE_DEF_KEY] = only
    elif DEFAULT_SERVING_SIGNATURE_DEF_KEY not in found:
        raise ValueError(
            "Multiple `export_outputs` were provided, but none of them is specified as the "
            "default. Do this by naming one of them with "
            "`signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY`."
        )
    return found


def signatures_of(receiver: Any, outputs: Mapping[str, ExportOutput]) -> dict[str, Any]:
    """The signatures that are valid, by name; alternative inputs are joined to names by a colon."""
    found = {}
    sets = {None: receiver.receiver_tensors, **(receiver.receiver_tensors_alternatives or {})}
    for prefix, tensors in sets.items():
        for name, output in outputs.items():
            key = name if prefix is None else f"{prefix}:{name}"
            try:
                signature = output.as_signature_def(tensors)
            except ValueError as error:
                logging.info("Signature %s is left out: %s", key, error)
                continue
            if is_valid_signature(signature):
                found[key] = signature
    return found


def timestamped_directory(base: str) -> str:
    """A directory that does not exist, named by the time in seconds, later ones by later numbers.

    Several within a second are numbered on; an older one that was deleted does not free its number.
    """
    names = gfile.listdir(base) if gfile.exists(base) else []
    taken = [name.strip("/").removeprefix("temp-") for name in names]
    latest = max((int(name) for name in taken if name.isdecimal()), default=0)
    return os.path.join(base, str(max(int(time.time()), latest + 1)))
