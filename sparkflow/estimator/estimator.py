"""`tf.estimator.Estimator`: a model function trained, evaluated, asked and exported."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from absl import logging

from sparkflow._api import export
from sparkflow.estimator.broadcasts import warn_of_broadcasts
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.evaluation import StopAfterSteps, with_values, write_results
from sparkflow.estimator.exporting import export_model
from sparkflow.estimator.functions import (
    Inputs,
    call_input_fn,
    call_model_fn,
    check_model_fn,
)
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.estimator.predicting import batches, chosen
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.warm_start import warm_started_from
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import add_to_collection, device, get_collection
from sparkflow.metrics import mean
from sparkflow.ops.control.ordering import group
from sparkflow.ops.random.random import set_random_seed
from sparkflow.summary.summaries import scalar
from sparkflow.train.checkpoints.reading import list_variables, load_variable, saved_step
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.train.checkpoints.state_file import latest_checkpoint
from sparkflow.train.clusters.device_setter import replica_device_setter
from sparkflow.train.hooks.checkpoint_hook import CheckpointSaverHook, CheckpointSaverListener
from sparkflow.train.hooks.logging_hooks import LoggingTensorHook, NanTensorHook
from sparkflow.train.hooks.step_hooks import FinalOpsHook, StopAtStepHook
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow.train.sessions.monitored_session import MonitoredSession
from sparkflow.train.sessions.monitored_training import MonitoredTrainingSession
from sparkflow.train.sessions.run_loop import run_loop
from sparkflow.train.sessions.scaffold import Scaffold
from sparkflow.train.sessions.session_creators import ChiefSessionCreator
from sparkflow.train.step_counter import create_global_step, get_global_step, read_of_global_step

LOSS = "loss"


@export("estimator.Estimator")
class Estimator:
    """A model, its directory, and how it runs.

    Args:
        model_fn: Called with features, and what it takes of labels, mode, params, config; returns
            an `EstimatorSpec`.
        model_dir: Where checkpoints and events are; a temporary directory when neither this nor
            the configuration names one.
        config: A `RunConfig`.
        params: A dictionary passed to model_fn.
        warm_start_from: A checkpoint, its directory, or `WarmStartSettings`.

    Raises:
        ValueError: model_fn cannot be called so, or config names another directory.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        self._require_own_members()
        self._config = _configured(config, model_dir)
        self._model_dir: str = self._config.model_dir
        logging.info("Using model_dir: %s", self._model_dir)
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start_settings = warm_started_from(warm_start_from)

    @property
    def model_dir(self) -> str:
        """Where checkpoints and events are."""
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        """A copy of the configuration."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the parameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function with `params` bound."""

        def bound(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            return call_model_fn(self._model_fn, features, labels, mode, self.params, config)

        return bound

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the latest checkpoint.

        Raises:
            ValueError: There is no checkpoint.
        """
        self._require_checkpoint()
        return load_variable(self._model_dir, name)

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the latest checkpoint.

        Raises:
            ValueError: There is no checkpoint.
        """
        self._require_checkpoint()
        return [name for name, _ in list_variables(self._model_dir)]

    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint, None where there is none."""
        return latest_checkpoint(self._model_dir)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Estimator:
        """Trains until the input ends or the steps are done, from the latest checkpoint on.

        Args:
            input_fn: Gives features and labels, as tensors or as a dataset.
            hooks: Called around each step.
            steps: How many steps to take; not with `max_steps`.
            max_steps: The global step to stop at.
            saving_listeners: Called around each checkpoint.

        Raises:
            ValueError: Both numbers are given, or one is not above 0.
            TypeError: Something is no hook or listener.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        _positive(steps, "steps")
        _positive(max_steps, "max_steps")
        if max_steps is not None and saved_step(self._model_dir) >= max_steps:
            logging.info("Skipping training since max_steps has already saved.")
            return self
        all_hooks = _checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            all_hooks.append(StopAtStepHook(steps, max_steps))
        loss = self._train(input_fn, all_hooks, _checked_listeners(saving_listeners))
        logging.info("Loss for final step: %s.", loss)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """The metrics of the model on an input, also written as events in `eval` or `eval_<name>`.

        Args:
            input_fn: Gives features and labels.
            steps: How many batches; all when None.
            hooks: Called around each batch.
            checkpoint_path: The checkpoint; the latest when None. If there is none, variables start
                as they do for training, from `warm_start_from` where that is given.
            name: Tells several evaluations apart.

        Returns:
            The metrics by name, with `loss`, the mean over batches, and `global_step`.

        Raises:
            ValueError: A number of steps that is not above 0, or a metric named `loss` or
                `global_step`.
        """
        _positive(steps, "steps")
        path = checkpoint_path or latest_checkpoint(self._model_dir)
        if not path:
            logging.info(
                "Could not find trained model in model_dir: %s, running initialization to "
                "evaluate.",
                self._model_dir,
            )
        return self._evaluate(input_fn, steps, hooks, name, path, {})

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yields the predictions for an input.

        Args:
            input_fn: Gives features; labels are left out.
            predict_keys: The names of the predictions wanted; all when None.
            hooks: Called around each batch.
            checkpoint_path: The checkpoint; the latest when None. If there is none, variables start
                as they do for training, from `warm_start_from` where that is given.
            yield_single_examples: Whether to yield each example, or each batch.

        Raises:
            ValueError: No name is known, or predictions differ in length.
        """
        all_hooks = _checked_hooks(hooks)
        path = checkpoint_path or latest_checkpoint(self._model_dir)
        if not path:
            logging.info(
                "Could not find trained model in model_dir: %s, running initialization to predict.",
                self._model_dir,
            )
        with _new_graph(self._config) as graph:
            inputs, spec = self._built(input_fn, ModeKeys.PREDICT)
            predictions = chosen(spec.predictions, predict_keys)
            self._warm_start_without(path)
            creator = ChiefSessionCreator(
                scaffold=spec.scaffold or Scaffold(),
                checkpoint_filename_with_path=path,
                master=self._config.master,
                config=self._config.session_config,
            )
            session = MonitoredSession(creator, [*inputs.hooks, *all_hooks, *spec.prediction_hooks])
        # The graph is the default one while hooks are called, not for whoever iterates.
        yield from batches(graph, session, predictions, yield_single_examples)

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes the model, as it predicts, to a new directory named by the time in seconds.

        Args:
            export_dir_base: Where that directory is made.
            serving_input_receiver_fn: Gives a `ServingInputReceiver`.
            assets_extra: Files to copy, by their path in `assets.extra`.
            as_text: Whether the model is written as text.
            checkpoint_path: The checkpoint; the latest when None.
            experimental_mode: What the model function is called for.

        Returns:
            The directory, as bytes.

        Raises:
            ValueError: There is no function or no checkpoint.
        """
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        path = checkpoint_path or latest_checkpoint(self._model_dir)
        if not path:
            raise ValueError(f"Couldn't find trained model at {self._model_dir}.")
        with _new_graph(self._config):
            self._begin_graph()
            receiver = serving_input_receiver_fn()
            spec = call_model_fn(
                self._model_fn,
                receiver.features,
                getattr(receiver, "labels", None),
                experimental_mode,
                self.params,
                self._config,
            )
            return export_model(
                export_dir_base,
                receiver,
                spec,
                path,
                self._config.session_config,
                assets_extra,
                as_text,
            )

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The older name of `export_saved_model`; default attributes stay either way."""
        given = (export_dir_base, serving_input_receiver_fn, assets_extra, as_text)
        return self.export_saved_model(*given, checkpoint_path)

    def eval_dir(self, name: str | None = None) -> str:
        """Where the events of an evaluation of that name are."""
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def _begin_graph(self) -> None:
        """Gives the default graph what every model function finds there: seed and step counter."""
        set_random_seed(self._config.tf_random_seed)
        create_global_step()

    def _built(self, input_fn: Callable[..., Any], mode: str) -> tuple[Inputs, EstimatorSpec]:
        """Input and model in the default graph, which gets a counter of steps."""
        self._begin_graph()
        with device("/cpu:0"):
            inputs = call_input_fn(input_fn, mode, self.params, self._config)
        spec = call_model_fn(
            self._model_fn, inputs.features, inputs.labels, mode, self.params, self._config
        )
        return inputs, spec

    def _evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None,
        hooks: Sequence[SessionRunHook] | None,
        name: str | None,
        path: str | None,
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Evaluates a checkpoint, or values of variables by name; see `evaluate`."""
        all_hooks = _checked_hooks(hooks)
        with _new_graph(self._config) as graph:
            inputs, spec = self._built(input_fn, ModeKeys.EVAL)
            if not values:
                self._warm_start_without(path)
            metrics = dict(spec.eval_metric_ops)
            for own in (LOSS, _STEP):
                if own in metrics:
                    raise ValueError(
                        f'Metric with name "{own}" is not allowed, because Estimator already '
                        "defines a default metric with the same name."
                    )
            metrics[LOSS] = mean(spec.loss)
            update = group(*(pair[1] for pair in metrics.values()))
            final = FinalOpsHook(
                {**{key: pair[0] for key, pair in metrics.items()}, _STEP: get_global_step(graph)}
            )
            all_hooks += [*inputs.hooks, *spec.evaluation_hooks]
            if steps is not None:
                all_hooks.append(StopAfterSteps(steps))
            scaffold = spec.scaffold or Scaffold()
            creator = ChiefSessionCreator(
                scaffold=with_values(scaffold, values) if values else scaffold,
                checkpoint_filename_with_path=path,
                master=self._config.evaluation_master,
                config=self._config.session_config,
            )
            with MonitoredSession(creator, [*all_hooks, final]) as session:
                run_loop(session, update)
        results = dict(final.final_ops_values)
        write_results(self.eval_dir(name), results, path)
        return results

    def _train(
        self, input_fn: Callable[..., Any], hooks: list[SessionRunHook], listeners: list[Any]
    ) -> Any:
        config = self._config
        with _new_graph(self._config):
            inputs, spec = self._built(input_fn, ModeKeys.TRAIN)
            warn_of_broadcasts(spec.loss, inputs.labels)
            self._warm_start_without(latest_checkpoint(self._model_dir))
            if not any(each.op.name == LOSS for each in get_collection(GraphKeys.SUMMARIES)):
                scalar(LOSS, spec.loss)
            workers = [
                *hooks,
                *inputs.hooks,
                NanTensorHook(spec.loss),
                *spec.training_hooks,
            ]
            if config.log_step_count_steps:
                workers.append(
                    LoggingTensorHook(
                        {LOSS: spec.loss, "step": read_of_global_step()},
                        every_n_iter=config.log_step_count_steps,
                    )
                )
            scaffold = spec.scaffold or Scaffold()
            if not (scaffold.saver or get_collection(GraphKeys.SAVERS)):
                add_to_collection(
                    GraphKeys.SAVERS,
                    Saver(
                        sharded=True,
                        max_to_keep=config.keep_checkpoint_max,
                        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
                        defer_build=True,
                        save_relative_paths=True,
                    ),
                )
            chiefs = list(spec.training_chief_hooks)
            chiefs += self._saving(chiefs + workers, scaffold, listeners)
            with MonitoredTrainingSession(
                master=config.master,
                is_chief=config.is_chief,
                checkpoint_dir=self._model_dir,
                scaffold=scaffold,
                hooks=workers,
                chief_only_hooks=chiefs,
                save_checkpoint_secs=0,
                save_summaries_steps=config.save_summary_steps,
                config=config.session_config,
                max_wait_secs=config.session_creation_timeout_secs,
                log_step_count_steps=config.log_step_count_steps,
            ) as session:
                loss = run_loop(session, spec.train_op, fetches=spec.loss).values
        if loss is None:
            logging.warning("Training with estimator made no steps. Perhaps input is empty.")
        return loss

    def _warm_start_without(self, checkpoint_path: str | None) -> None:
        """Lets variables start from those of another model, where there is no checkpoint."""
        if self._warm_start_settings is not None and not checkpoint_path:
            self._warm_start_settings.apply()

    def _saving(
        self, hooks: Sequence[SessionRunHook], scaffold: Scaffold, listeners: list[Any]
    ) -> list[SessionRunHook]:
        """The hook that saves, unless there is one."""
        config = self._config
        present = [hook for hook in hooks if isinstance(hook, CheckpointSaverHook)]
        made: list[SessionRunHook] = []
        if (config.save_checkpoints_secs or config.save_checkpoints_steps) and not present:
            present = [
                CheckpointSaverHook(
                    self._model_dir,
                    save_secs=config.save_checkpoints_secs,
                    save_steps=config.save_checkpoints_steps,
                    scaffold=scaffold,
                )
            ]
            made += present
        if listeners:
            if not present:
                raise ValueError(
                    "There should be a CheckpointSaverHook to use saving_listeners. Please set one "
                    "of the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
                )
            present[0]._listeners = [*present[0]._listeners, *listeners]
        return made

    def _require_checkpoint(self) -> None:
        if not latest_checkpoint(self._model_dir):
            raise ValueError(f"Couldn't find trained model at {self._model_dir}.")

    def _require_own_members(self) -> None:
        """Passes where a subclass overrides nothing that callers rely on.

        Raises:
            ValueError: It does.
        """
        allowed = {"model_fn", "params"}
        public = {name for name in vars(Estimator) if not name.startswith("_")} - allowed
        for kind in type(self).__mro__:
            if kind is Estimator:
                return
            overridden = public & vars(kind).keys()
            if overridden:
                raise ValueError(
                    "Subclasses of Estimator cannot override members of Estimator. "
                    f"{kind} does override {sorted(overridden)}"
                )


_STEP = GraphKeys.GLOBAL_STEP


@contextmanager
def _new_graph(config: RunConfig) -> Iterator[Graph]:
    """A new graph as the default one, its nodes placed as the configuration says."""
    graph = Graph()
    with graph.as_default(), graph.device(config.device_fn or _placement(config)):
        yield graph


def _placement(config: RunConfig) -> Any:
    """Variables on the ps tasks, everything else on this one."""
    if not config.num_ps_replicas:
        return None
    return replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        merge_devices=True,
        cluster=config.cluster_spec,
    )


def _configured(config: RunConfig | None, model_dir: Any) -> RunConfig:
    if config is None:
        config = RunConfig()
    elif not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`. Received {config}.")
    given = None if model_dir is None else os.fspath(model_dir)
    if given is not None and config.model_dir is not None and given != config.model_dir:
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
            f"In constructor: '{given}', in `RunConfig`: '{config.model_dir}' "
        )
    directory = given or config.model_dir
    if not directory:
        directory = tempfile.mkdtemp()
        logging.warning("Using temporary folder as model directory: %s", directory)
    return config.replace(model_dir=directory)


def _positive(number: int | None, name: str) -> None:
    if number is not None and number <= 0:
        raise ValueError(f"Must specify {name} > 0, given: {number}")


def _checked_hooks(hooks: Iterable[Any] | None) -> list[SessionRunHook]:
    found = list(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return found


def _checked_listeners(listeners: Any) -> list[Any]:
    found = list(listeners or ())
    for each in found:
        if not isinstance(each, CheckpointSaverListener):
            raise TypeError(
                "saving_listeners must be a list of CheckpointSaverListener instances, given: "
                f"{each}"
            )
    return found
