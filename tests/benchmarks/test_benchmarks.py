"""The benchmarks run: one short round of those that need no Spark session."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(name, *arguments):
    before = (BENCHMARKS / "RESULTS.md").read_bytes()
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--rounds", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (BENCHMARKS / "RESULTS.md").read_bytes() == before  # only --record changes it
    return done


def rows(output):
    """The tables' rows by their first cell."""
    lines = [line.strip("| \n").split("|") for line in output.splitlines() if line.startswith("|")]
    return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines}


def test_session_overhead_compares_what_is_installed():
    arguments = ["--round-s", "0.001", "--threads", "1", "--cases", "add", "mlp"]
    done = run("session_overhead", *arguments)
    found = rows(done.stdout)
    threads, ours, tensorflow, by_hand, _, ratio = found["MLP 784-256-128-10, batch 100, SGD step"]
    assert threads == "1"
    assert ours.endswith("±0%")
    assert by_hand.endswith("±0%")
    assert float(ratio) > 0
    if importlib.util.find_spec("tensorflow") is None:
        assert tensorflow == "-"
        assert "TensorFlow is left out" in done.stderr


@pytest.mark.nightly
def test_step_loop_counts_the_steps_of_both_workers():
    found = rows(run("step_loop", "--steps", "5").stdout)
    for what in ("asynchronous", "synchronous"):
        steps_per_s, _, waited, _ = found[what]
        assert float(steps_per_s.split()[0].replace(",", "")) > 0
        assert 0 < float(waited.rstrip("%")) <= 100


@pytest.mark.nightly
def test_parameter_servers_are_compared_with_bare_sockets():
    arguments = ["--round-s", "0.001", "--transports", "auto", "--case", "read", "mlp_sync"]
    done = run("parameter_servers", *arguments)
    found = rows(done.stdout)
    ours, goal, reached, *_ = found["read 4 bytes"]
    assert (ours, goal) == ("run auto", "≤ 60 µs")
    assert reached.endswith((", met", ", missed"))
    for who in ("sparkflow, run auto", "sparkflow, loop auto"):
        _, rate, _ = found[who]  # of the last case
        assert rate.endswith(" examples/s")
    assert "bare unix socket" in found
    if importlib.util.find_spec("tensorflow") is None:
        assert "TensorFlow is left out" in done.stderr


def test_no_two_cases_of_parameter_servers_have_one_name():
    """The names are the keys of their tables."""
    code = "import parameter_servers as p; [print(r.text) for g in p.GROUPS for r in g.values()]"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True
    )
    names = done.stdout.splitlines()
    assert len(names) == len(set(names)) > 10


def test_graphs_of_many_tasks_are_registered():
    found = rows(run("register_graph", "--tasks", "3", "6").stdout)
    number, nodes, total, per_task, growth, verdict = found["compiling"]
    assert (number, verdict) == ("6", "-")
    assert int(nodes) > 6
    assert total.endswith("±0%")
    assert per_task.endswith("±0%")
    assert float(growth) > 0


def test_scaling_is_simulated():
    found = rows(run("simulate_scaling", "--worker-steps", "20", "--workers", "1", "10").stdout)
    network, line, at_ten, at_hundred, _ = found["synchronous"]  # the last of them
    assert (network, line, at_hundred) == ("100 Gbit/s", "all-reduce", "-")
    assert 1 < float(at_ten) < 10


def test_loops_compare_what_is_installed():
    arguments = ["--round-s", "0.001", "--threads", "1", "--cases", "while", "lstm"]
    found = rows(run("loops", *arguments).stdout)
    for case in ("while_loop", "LSTM"):
        (cells,) = [cells for name, cells in found.items() if name.startswith(case)]
        assert cells[1].endswith("±0%")


@pytest.mark.nightly
def test_matrix_products_are_compared():
    found = rows(run("matrix_products", "--round-s", "0.001", "--cases", "10×10×10").stdout)
    threads, ours, by_numpy, *_, share = found["10×10×10"]
    assert threads == "2"  # the last row of that name
    assert ours.endswith("±0%")
    assert by_numpy.endswith("±0%")
    assert share.endswith("%")
    assert float(found["cube of 2048"][-1].rstrip("%")) > 0


def test_a_timeline_of_a_step_shows_every_kernel():
    output = run("step_timeline", "--case", "mlp", "--threads", "2").stdout
    kernels = [line.split("|")[2:5] for line in output.splitlines() if line.startswith("| ")]
    names = [name.strip() for name, *_ in kernels]
    assert names[-1] == "between kernels"
    assert names.count("MatMul") >= 5
    _, taken, busy = kernels[names.index("MatMul")]
    assert float(taken) > 0
    assert float(busy) > 0  # for all threads; late ones make the kernel take longer


def test_executor_says_what_was_reached_of_each_goal():
    arguments = ["--round-s", "0.001", "--threads", "1", "--cases"]
    found = rows(run("executor", *arguments, "add_callable", "mlp_large").stdout)
    add = found["the same through make_callable"]
    threads, ours, *_, limit, _, _, _, over_numpy, goal, reached = add
    assert threads == "1"
    assert ours.endswith("±0%")
    assert limit.endswith("±0%")
    assert float(over_numpy) > 0
    assert goal == "≤ limit + 6 µs"
    assert reached.endswith((", met", ", missed"))
    (mlp,) = [cells for name, cells in found.items() if name.startswith("MLP")]
    of_tensorflow, of_peak = mlp[-1].split("; ")
    assert of_peak.endswith((", met", ", missed"))
    if importlib.util.find_spec("tensorflow") is None:
        assert of_tensorflow == "-"


@pytest.mark.nightly
def test_executor_runs_each_first_run_in_a_process_of_its_own():
    arguments = ["--threads", "1", "--first-runs", "1", "--cases", "first_run"]
    output = run("executor", *arguments).stdout
    found = rows(output)
    for case in ("build and first step, no kernel cached", "the same, kernels cached on disk"):
        _, ours, *_, reached = found[case]
        assert ours.endswith("±0%")
        assert reached.split("; ")[1].endswith((", met", ", missed"))
    assert "in cold, " in output


@pytest.mark.nightly
def test_updates_are_compared_with_copies():
    arguments = ["--round-s", "0.001", "--threads", "1"]
    found = rows(run("updates", *arguments).stdout)
    threads, ours, *_, over_limit = found["SGD of 200 variables of 1,000"]
    assert threads == "1"
    assert ours.endswith("±0%")
    assert float(over_limit) > 0


def test_the_gpu_benchmark_ends_where_there_is_no_gpu():
    done = run("gpu", "--shrink", "64", "--steps", "2")
    assert "no GPU" in done.stdout or "softmax" in done.stdout


def test_break_even_is_where_two_lines_meet():
    program = (
        "from break_even import Line\n"
        "alone = Line.through([100, 1_000, 10_100], [2.0, 0.0, 12.0])\n"
        "assert (round(alone.fixed, 6), round(alone.per_row, 6)) == (1.9, 0.001)\n"
        "fit = Line(5.9, 0.0015)  # two workers\n"
        "assert fit.rows_until_faster(alone, 2) is None\n"
        "rows = fit.rows_until_faster(alone, 4)\n"
        "assert round(rows) == 16_000\n"
        "assert round(5.9 + rows * 0.0015 / 2, 6) == round(1.9 + rows * 0.001, 6)\n"
        "assert Line(0.0, 0.0001).rows_until_faster(alone, 2) == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_break_even_measures_fits_beside_collecting():
    found = rows(run("break_even", "--shrink", "100", "--cases", "small").stdout)
    size, collected, fit, session, *_ = found["28 columns, MLP 28-64-32-10, 3 epochs"]
    assert size == "10,000"
    assert fit.endswith(" s ±0%")
    assert collected == "1 MiB"
    assert session != "-"


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_flights_are_judged():
    found = rows(run("flights", "--fraction", "0.02", "--cases", "wide_deep", "xgboost").stdout)
    auc, *_, software = found["SparkWideDeepClassifier, as it comes"]
    assert float(auc.split()[0]) > 0.55
    assert "sparkflow-ml" in software


def test_peers_are_compared_in_one_table():
    arguments = ["--round-s", "0.001", "--threads", "1", "--competitors", "sparkflow", "torch"]
    found = rows(run("peers", *arguments, "--cases", "add", "recommender").stdout)
    threads, ours, tensorflow, jax, *_, fastest = found["one addition, 10 floats"]
    assert threads == "1"
    assert ours.endswith("±0%")
    assert (tensorflow, jax) == ("-", "-")
    if importlib.util.find_spec("torch") is None:
        assert fastest == "-"
    (cells,) = [cells for name, cells in found.items() if name.startswith("26 embeddings")]
    assert cells[1].endswith("±0%")


def test_programs_are_compared_in_the_same_table():
    """A loop, gradients alone, an optimizer and a pure computation; not their speed."""
    cases = ["branch", "rows_gradient", "mlp_16", "clusters"]
    arguments = ["--round-s", "0.001", "--threads", "1", "--competitors", "sparkflow", "torch"]
    found = rows(run("programs", *arguments, "--cases", *cases).stdout)
    assert len(found) == len(cases) + 2  # including the heading and its line
    threads, ours, *_ = found["while_loop, 100 turns with a branch"]
    assert threads == "1"
    assert ours.endswith("±0%")


def test_single_ops_are_compared():
    arguments = ["--round-s", "0.001", "--threads", "1", "--competitors", "sparkflow", "torch"]
    match = "matrix_band_part: lower|string_length|cumsum over axis 2.*gradient"
    found = rows(run("single_ops", *arguments, "--match", match).stdout)
    assert len(found) == 3 + 2  # including the heading and its line
    threads, ours, *_ = found["string_length, 10,000"]
    assert threads == "1"
    assert ours.endswith("±0%")


@pytest.mark.nightly
def test_every_program_runs():
    arguments = ["--round-s", "0.001", "--threads", "1", "--competitors", "sparkflow", "torch"]
    assert len(rows(run("programs", *arguments).stdout)) > 20


def test_the_better_setting_of_tensorflow_counts_and_who_is_fastest_is_said():
    program = (
        "from peers import INLINE, best_of_theirs, row\n"
        "from timing import measured\n"
        "given = {'sparkflow': [3e-6, 5e-6], 'TensorFlow': [9e-6, 8e-6], INLINE: [7e-6, 6e-6],\n"
        "         'torch': [1e-6, 2e-6]}\n"
        "times = best_of_theirs({name: measured(each) for name, each in given.items()})\n"
        "assert times['TensorFlow'].rounds == (7e-6, 6e-6)\n"
        "*_, ratio, fastest = row('x', 1, times)\n"
        "assert (float(ratio), fastest) == (0.367, 'torch'), ratio\n"
        "del times['torch']\n"
        "assert row('x', 1, times)[-1] == 'sparkflow'\n"
        "assert row('x', 1, {'sparkflow': measured([1.0])})[-2:] == ['-', '-']\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


COMPETITOR = """
import os, signal, sys
from competitor import Case, serve

def make(case):
    if case == "interrupted":
        os.kill(os.getppid(), signal.SIGINT)
    if sys.argv[1] == "sparkflow":
        return Case(lambda: None, [1.0])
    if case == "raises":
        raise ImportError("no tf_keras\\nSet VERBOSE=1 for more")
    if case == "ends":
        return Case(lambda: os._exit(3), [1.0])
    return Case(lambda: None, [2.0 if case == "differs" else 1.0])

serve(make, "software")
"""


def compared(tmp_path, *cases):
    """Runs `peers.compare_all` with the cases above; returns its end, and what it has recorded."""
    script, recorded = tmp_path / "competitor_of_test.py", tmp_path / "RESULTS.md"
    script.write_text(COMPETITOR)
    program = (
        "import signal, sys, pathlib, peers, report\n"
        # Whoever runs the tests in the background of a shell has them ignore Ctrl-C.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"report.RESULTS = pathlib.Path({str(recorded)!r})\n"
        "cases = {name: f'case {name}' for name in sys.argv[1].split()}\n"
        "arguments = '--record --rounds 1 --round-s 0.0001 --threads 1'\n"
        "sys.argv = ['peers.py', *arguments.split(), '--competitors', 'sparkflow', 'JAX']\n"
        f"peers.compare_all('peers', '', cases, {str(script)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, " ".join(cases)],
        cwd=BENCHMARKS,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, recorded.read_text() if recorded.exists() else ""


def test_who_fails_in_a_case_is_left_out_of_it_and_takes_part_in_the_next(tmp_path):
    done, recorded = compared(tmp_path, "raises", "ends", "differs", "fine")
    assert done.returncode == 1
    found = rows(recorded)
    for case in ("raises", "ends"):
        _, ours, _, jax, *_, ratio, first = found[f"case {case}"]
        assert ours.endswith("±0%")
        assert (jax, ratio, first) == ("failed", "-", "-")
    assert found["case fine"][3].endswith("±0%")
    reasons = [
        "JAX in raises: ImportError: no tf_keras",
        "JAX in ends: JAX ended with code 3",
        "differs: JAX gets [2.0], sparkflow gets [1.0]",
    ]
    assert f"- failed: {'; '.join(reasons)}\n" in recorded
    assert all(reason in done.stderr for reason in reasons)
    assert "Traceback" in done.stderr  # the competitor's own traceback, once
    assert recorded.strip() in done.stdout


def test_what_was_measured_until_ctrl_c_is_recorded(tmp_path):
    done, recorded = compared(tmp_path, "fine", "interrupted", "never")
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "- ended before the end by: KeyboardInterrupt\n" in recorded
    assert [name for name in rows(recorded) if name.startswith("case ")] == ["case fine"]
