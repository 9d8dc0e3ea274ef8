"""Coordinator and LooperThread."""

import sys
import threading

import pytest

import sparkflow as tf

DEADLINE_S = 60


def started(target, *args):
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def test_all_threads_stop_when_one_asks():
    coord = tf.train.Coordinator()
    threads = [started(coord.wait_for_stop, DEADLINE_S) for _ in range(3)]
    assert not coord.should_stop()
    coord.request_stop()
    coord.join(threads)
    assert coord.should_stop()
    assert coord.joined
    coord.clear_stop()
    assert not coord.should_stop()
    assert not coord.wait_for_stop(0.0)


def test_join_returns_when_all_threads_end_by_themselves():
    coord = tf.train.Coordinator()
    thread = threading.Thread(target=lambda: None)
    coord.register_thread(thread)
    thread.start()
    coord.join()
    assert not coord.should_stop()


def test_the_first_exception_is_raised_by_join():
    coord = tf.train.Coordinator()

    def fail():
        with coord.stop_on_exception():
            raise ValueError("first")

    started(fail).join(DEADLINE_S)
    coord.request_stop(KeyError("second"))
    with pytest.raises(ValueError, match="first"):
        coord.raise_requested_exception()
    with pytest.raises(ValueError, match="first"):
        coord.join()


def test_exc_info_keeps_its_traceback():
    coord = tf.train.Coordinator()
    try:
        raise KeyError("here")
    except KeyError:
        coord.request_stop(sys.exc_info())
    with pytest.raises(KeyError) as error:
        coord.join()
    assert error.traceback[-1].name == "test_exc_info_keeps_its_traceback"


def test_some_exceptions_are_a_clean_stop():
    coord = tf.train.Coordinator()
    coord.request_stop(tf.errors.OutOfRangeError(None, None, "end"))
    assert coord.should_stop()
    coord.join()
    other = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    other.request_stop(KeyError("k"))
    other.join()
    strict = tf.train.Coordinator(clean_stop_exception_types=())
    strict.request_stop(tf.errors.OutOfRangeError(None, None, "end"))
    with pytest.raises(tf.errors.OutOfRangeError):
        strict.join()


def test_a_thread_that_does_not_stop_is_named():
    coord = tf.train.Coordinator()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, args=(DEADLINE_S,), name="stuck", daemon=True)
    thread.start()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="threads still running: stuck"):
        coord.join([thread], stop_grace_period_secs=0.01)
    coord.clear_stop()
    coord.request_stop()
    coord.join([thread], stop_grace_period_secs=0.01, ignore_live_threads=True)
    release.set()
    thread.join(DEADLINE_S)


def test_an_exception_after_join_is_raised_at_once():
    coord = tf.train.Coordinator()
    coord.join()
    coord.request_stop()
    with pytest.raises(ValueError, match="late"):
        coord.request_stop(ValueError("late"))


def test_what_is_no_exception_is_refused():
    with pytest.raises(ValueError, match="must be an exception"):
        tf.train.Coordinator().request_stop("text")


@pytest.mark.parametrize("interval", [None, 0.0])
def test_a_looper_calls_until_it_stops(interval):
    coord, calls = tf.train.Coordinator(), []

    def target(limit, step=1):
        calls.append(step)
        if len(calls) == limit:
            coord.request_stop()

    tf.train.LooperThread.loop(coord, interval, target, args=(3,), kwargs={"step": 2})
    coord.join()
    assert calls[:3] == [2, 2, 2]


def test_a_looper_can_be_subclassed_and_stops_all_when_it_fails():
    events = []

    class Looper(tf.train.LooperThread):
        def start_loop(self):
            events.append("start")

        def run_loop(self):
            events.append("run")
            raise ValueError("failed")

    coord = tf.train.Coordinator()
    Looper(coord, None).start()
    with pytest.raises(ValueError, match="failed"):
        coord.join()
    assert events == ["start", "run"]
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread(3, None)
