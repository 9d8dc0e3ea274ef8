import os
import subprocess
import sys

import pytest
import threadpoolctl

from sparkflow import __main__, doctor
from sparkflow.doctor import Finding, Verdict
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.codegen.machine import native

LIBRARY = {
    "user_api": "blas",
    "internal_api": "openblas",
    "version": "0.3.30",
    "filepath": "/lib/libopenblas.so",
    "architecture": "Prescott",
}


def fake_java(folder, version):
    """Creates a program called `java` that reports this version; returns its folder."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026' >&2\n")
    program.chmod(0o755)
    return program.parent


def test_a_report_has_a_line_per_finding():
    found = doctor.report(
        [
            Finding("Java", "17"),
            Finding("processors", "few", Verdict.WARNING),
            Finding("numpy", "not installed", Verdict.MISSING),
        ]
    )
    assert found.splitlines() == [
        "  Java        17",
        "! processors  few",
        "X numpy       not installed",
    ]


def test_packages():
    assert doctor.package("numpy").verdict is Verdict.FINE
    missing = doctor.package("no-such-package")
    assert missing.verdict is Verdict.MISSING
    assert "pip install no-such-package" in missing.text


def test_threads_below_the_processors_are_told(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert doctor.processors().verdict is Verdict.FINE
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = doctor.processors()
    assert found.verdict is Verdict.WARNING
    assert "kernels use 1 threads (OMP_NUM_THREADS=1)" in found.text


def test_a_forced_blas_kernel_is_a_warning(monkeypatch):
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: [LIBRARY])
    monkeypatch.setattr(doctor, "_kernels_without_force", lambda _: {"libopenblas.so": "SkylakeX"})
    (found,) = doctor.blas({"OPENBLAS_CORETYPE": "Prescott"})
    assert found.verdict is Verdict.WARNING
    assert "kernel Prescott" in found.text
    assert "without OPENBLAS_CORETYPE=Prescott it would be SkylakeX" in found.text
    (found,) = doctor.blas({})
    assert found.verdict is Verdict.FINE


def test_a_process_without_the_variable_tells_its_kernel():
    kernels = doctor._kernels_without_force({**os.environ, "OPENBLAS_CORETYPE": "Prescott"})
    clean = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    assert kernels == doctor._kernels_without_force(clean)


def test_an_unknown_blas_is_a_warning(monkeypatch):
    monkeypatch.setattr(threadpoolctl, "threadpool_info", list)
    (found,) = doctor.blas({})
    assert found.verdict is Verdict.WARNING


def test_machine_code(monkeypatch):
    if native.available():
        assert doctor.machine_code().verdict is Verdict.FINE
    monkeypatch.setattr(native, "available", lambda: False)
    assert doctor.machine_code().verdict is Verdict.WARNING


def test_the_kernel_cache(tmp_path, monkeypatch):
    folder = tmp_path / "not" / "yet"
    found = doctor.kernel_cache({"SPARKFLOW_KERNEL_CACHE": str(folder)})
    assert found == Finding("kernel cache", str(folder))
    assert not folder.exists()
    assert doctor.kernel_cache({"SPARKFLOW_KERNEL_CACHE": ""}).verdict is Verdict.WARNING
    refused = doctor.kernel_cache({"SPARKFLOW_KERNEL_CACHE": "off"})
    assert refused.verdict is Verdict.MISSING
    assert "'off', which is not an absolute path" in refused.text
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = doctor.kernel_cache({"SPARKFLOW_KERNEL_CACHE": str(folder)})
    assert found.verdict is Verdict.WARNING
    assert "cannot be written" in found.text


@pytest.mark.parametrize(
    ("version", "release"),
    [("17.0.9", 17), ("1.8.0_392", 8), ("21", 21), ("11.0.2", 11), ("", 0), ("unknown", 0)],
)
def test_releases_of_java(version, release):
    assert doctor.java_release(version) == release


def test_java_of_the_path_and_of_its_home(tmp_path):
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "1.8.0_392")
    found = doctor.java({"PATH": f"{new}:/bin"})
    assert found == Finding("Java", f"21.0.1 at {new / 'java'}")
    found = doctor.java({"PATH": f"{new}:/bin", "JAVA_HOME": str(old.parent)})
    assert found.verdict is Verdict.MISSING
    assert "1.8.0_392" in found.text
    assert "Java 17 or newer" in found.text
    assert doctor.java({"PATH": str(tmp_path)}).verdict is Verdict.MISSING


def test_gpus(monkeypatch):
    monkeypatch.setattr(doctor, "count_gpus", lambda: 2)
    assert doctor.gpus() == Finding("GPUs", "2")
    monkeypatch.setattr(doctor, "count_gpus", lambda: 0)
    assert "cupy" in doctor.gpus().text


@pytest.mark.parametrize(
    ("verdict", "status"), [(Verdict.FINE, 0), (Verdict.WARNING, 0), (Verdict.MISSING, 1)]
)
def test_the_exit_status(monkeypatch, capsys, verdict, status):
    monkeypatch.setattr(doctor, "examine", lambda: [Finding("this", "that", verdict)])
    assert __main__.main(["doctor"]) == status
    assert "this  that" in capsys.readouterr().out


def test_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "sparkflow", "doctor"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    assert "BLAS" in done.stdout
    missing = any(line.startswith("X ") for line in done.stdout.splitlines())
    assert done.returncode == int(missing)


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit):
        __main__.main([])
    assert "command" in capsys.readouterr().err


def test_a_pyspark_with_or_without_a_jvm_or_none(monkeypatch):
    versions = {"pyspark-client": "4.2.0"}

    def version(name):
        try:
            return versions[name]
        except KeyError:
            raise doctor.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert doctor.pyspark() == Finding("pyspark-client", "4.2.0")
    versions["pyspark"] = "4.2.0"
    assert doctor.pyspark() == Finding("pyspark", "4.2.0")
    versions.clear()
    assert doctor.pyspark() == Finding("pyspark", "there, without metadata")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert doctor.pyspark().verdict is Verdict.WARNING
    assert "sparkflow-ml[spark]" in doctor.pyspark().text


def test_another_distribution_in_our_folder_is_a_warning(tmp_path):
    found = doctor.sparkflow_itself(tmp_path)
    assert found.verdict is Verdict.FINE
    assert found.text.startswith(f"{SPARKFLOW_VERSION}, the interface of TensorFlow 1.15.0")
    (tmp_path / "HogwildSparkModel.py").touch()
    found = doctor.sparkflow_itself(tmp_path)
    assert found.verdict is Verdict.WARNING
    assert "pip uninstall -y sparkflow" in found.text
