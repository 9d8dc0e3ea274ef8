"""`Scaffold`: what a training session needs besides its train op, with defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import add_to_collection, get_collection, get_default_graph
from sparkflow.ops.control.ordering import group
from sparkflow.summary.summaries import merge_all
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.variables.initialization import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)


@export("train.Scaffold")
class Scaffold:
    """The init ops, ready ops, summary and saver of a monitored session.

    What is not given comes from the graph's collections, or else is made by `finalize`.

    Args:
        init_op: Initialises the model where there is no checkpoint.
        init_feed_dict: Values by tensor for `init_op`.
        init_fn: Called with the scaffold and the session after `init_op`.
        ready_op: Gives the names of variables without a value.
        ready_for_local_init_op: The same, asked before `local_init_op`.
        local_init_op: Initialises what each session has for itself.
        summary_op: The summaries to write.
        saver: Saves and restores.
        copy_from_scaffold: Where to take from what is not given.
        local_init_feed_dict: Values by tensor for `local_init_op`.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[..., Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise TypeError("copy_from_scaffold is not a Scaffold instance.")

        def chosen(given: Any, name: str) -> Any:
            if given is None and copy_from_scaffold is not None:
                return getattr(copy_from_scaffold, name)
            return given

        self._init_op = chosen(init_op, "init_op")
        self._ready_op = chosen(ready_op, "ready_op")
        self._ready_for_local_init_op = chosen(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = chosen(local_init_op, "local_init_op")
        self._local_init_feed_dict = chosen(local_init_feed_dict, "local_init_feed_dict")
        self._summary_op = chosen(summary_op, "summary_op")
        self._saver = chosen(saver, "saver")
        self._init_feed_dict = chosen(init_feed_dict, "init_feed_dict")
        if init_fn is not None:
            self._init_fn: Callable[[Any], Any] | None = lambda session: init_fn(self, session)
        else:
            self._init_fn = chosen(None, "init_fn")

    def finalize(self) -> Scaffold:
        """Creates the parts that are missing, and finalizes the default graph."""
        if self._init_op is None:
            self._init_op = self.get_or_default(
                "init_op", GraphKeys.INIT_OP, lambda: group(global_variables_initializer())
            )
        if self._ready_op is None:
            self._ready_op = self.get_or_default(
                "ready_op", GraphKeys.READY_OP, report_uninitialized_variables
            )
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = self.get_or_default(
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                lambda: report_uninitialized_variables(global_variables()),
            )
        if self._local_init_op is None:
            self._local_init_op = self.get_or_default(
                "local_init_op", GraphKeys.LOCAL_INIT_OP, self.default_local_init_op
            )
        if self._summary_op is None:
            self._summary_op = self.get_or_default("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        if self._saver is None:
            self._saver = self.get_or_default(
                "saver", GraphKeys.SAVERS, lambda: Saver(sharded=True, allow_empty=True)
            )
        self._saver.build()
        get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Callable[[Any], Any] | None:
        """Called with the session after `init_op`."""
        return self._init_fn

    @property
    def init_op(self) -> Any:
        """Initialises the model."""
        return self._init_op

    @property
    def ready_op(self) -> Any:
        """The operation that returns the names of variables without a value."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """The same, asked before `local_init_op`."""
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        """Initialises what each session has for itself."""
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        """Values by tensor for `local_init_op`."""
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        """The summaries to write."""
        return self._summary_op

    @property
    def saver(self) -> Any:
        """Saves and restores."""
        return self._saver

    @property
    def init_feed_dict(self) -> Any:
        """Values by tensor for `init_op`."""
        return self._init_feed_dict

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Any) -> Any:
        """The one item of a collection, or what the constructor makes, which is put there.

        Raises:
            RuntimeError: The collection has several items.
        """
        elements = get_collection(collection_key)
        if len(elements) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which '
                f"one to use by passing it to the tf.Scaffold constructor as:  "
                f"tf.Scaffold({arg_name}=item to use)"
            )
        if elements:
            return elements[0]
        made = default_constructor()
        if made is not None:
            add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Initialises local variables and tables."""
        return group(local_variables_initializer(), *get_collection(GraphKeys.TABLE_INITIALIZERS))
