"""Assertions about arrays, tensors and nested structures of them; mixed into `tf.test.TestCase`."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype


class ArrayAssertions(unittest.TestCase):
    """Compares anything array-like; tensors are evaluated first.

    Structures (dictionaries, lists and tuples, named tuples, objects made by attrs) are compared
    part by part, and a failure names the path to the part.
    """

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, however nested; see `sparkflow.test.case.TestCase`."""
        raise NotImplementedError

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Passes when `|a - b| <= atol + rtol * |b|` everywhere and the shapes are the same.

        Args:
            a: Arrays, tensors, numbers, or structures of those. NaN equals NaN.
            b: The same.
            rtol: Relative tolerance.
            atol: Absolute tolerance.
            msg: Put into the text of a failure.
        """
        self._close(a, b, rtol, atol, [], msg)

    def assertNotAllClose(self, a: Any, b: Any, **kwargs: Any) -> None:
        """Passes when `assertAllClose` with the same arguments fails."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements")

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Like `assertAllClose`, with the tolerance of the less precise of both dtypes.

        Args:
            a: An array or tensor.
            b: The same.
            rtol: Relative, for float64 and everything not named below.
            atol: Absolute, likewise.
            float_rtol: At least this for float32 and complex64.
            float_atol: At least this for float32 and complex64.
            half_rtol: At least this for float16.
            half_atol: At least this for float16.
            bfloat16_rtol: At least this for bfloat16.
            bfloat16_atol: At least this for bfloat16.
            msg: Put into the text of a failure.
        """
        a, b = self._array(a), self._array(b)
        kinds = {a.dtype.name, b.dtype.name}
        if kinds & {"float32", "complex64"}:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if "float16" in kinds:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        if "bfloat16" in kinds:
            rtol, atol = max(rtol, bfloat16_rtol), max(atol, bfloat16_atol)
        self.assertAllClose(a, b, rtol=rtol, atol=atol, msg=msg)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Passes when both have the same shape and equal elements; NaN equals NaN."""
        first, second = _comparable(self._array(a)), _comparable(self._array(b))
        self._same_shape(first, second, msg)
        same = first == second
        for each in (first, second):
            if each.dtype.kind not in "fc":
                break
        else:
            same = same | (np.isnan(first) & np.isnan(second))
        if not np.all(same):
            where = np.argwhere(~np.asarray(same))
            shown = tuple(where[0]) if where.size else ()
            raise self.failureException(
                f"Arrays differ at {len(where)} of {first.size} elements, first at index "
                f"{[int(i) for i in shown]}: {first[shown]!r} != {second[shown]!r}.\n"
                f"a = {first!r}\nb = {second!r}" + _suffix(msg)
            )

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Passes when `assertAllEqual` fails."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise AssertionError("The two values are equal at all elements." + _suffix(msg))

    def assertArrayNear(
        self, farray1: Iterable[float], farray2: Iterable[float], err: float, msg: Any = None
    ) -> None:
        """Passes when two sequences have the same length and differ by at most `err` anywhere."""
        first, second = list(farray1), list(farray2)
        self.assertEqual(len(first), len(second), msg=msg)
        for one, other in zip(first, second, strict=True):
            self.assertNear(float(one), float(other), err, msg=msg)

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Passes when two numbers are equal or differ by at most `err`."""
        self.assertTrue(
            f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r}{_suffix(msg, ' ')}"
        )

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: Any = None) -> None:
        """Passes when the Euclidean distance of two arrays is below `err`."""
        first, second = np.asarray(ndarray1), np.asarray(ndarray2)
        self.assertTrue(
            first.size == second.size and np.linalg.norm((first - second).ravel()) < err,
            f"{first!r} is not within {err!r} of {second!r}{_suffix(msg)}",
        )

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Passes when every element of `a` is greater than the target."""
        self._all(a, lambda x: x > comparison_target, f"> {comparison_target!r}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Passes when every element of `a` is at least the target."""
        self._all(a, lambda x: x >= comparison_target, f">= {comparison_target!r}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Passes when every element of `a` is less than the target."""
        self._all(a, lambda x: x < comparison_target, f"< {comparison_target!r}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Passes when every element of `a` is at most the target."""
        self._all(a, lambda x: x <= comparison_target, f"<= {comparison_target!r}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Passes when every element is between two bounds, which belong to it unless open."""

        def inside(x: Any) -> Any:
            above = x > lower_bound if open_lower_bound else x >= lower_bound
            return above & (x < upper_bound if open_upper_bound else x <= upper_bound)

        text = f"{'(' if open_lower_bound else '['}{lower_bound}, {upper_bound}"
        self._all(target, inside, f"in {text}{')' if open_upper_bound else ']'}")

    def assertAllInSet(self, target: Any, expected_set: Iterable[Any]) -> None:
        """Passes when every element of `target` is a member of `expected_set`."""
        wanted = set(expected_set)
        found = set(self._array(target).ravel().tolist())
        if found - wanted:
            raise AssertionError(
                f"{len(found - wanted)} unique element(s) are not in the set {wanted!r}: "
                f"{sorted(found - wanted, key=repr)[:10]!r}"
            )

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Passes when an array and a tensor (or two of a kind) have the same static shape.

        Raises:
            TypeError: One is neither an array nor a tensor.
        """
        sizes = []
        for each in (input_a, input_b):
            if isinstance(each, Tensor):
                sizes.append(each.get_shape().as_list())
            elif isinstance(each, np.ndarray | np.generic):
                sizes.append(list(each.shape))
            else:
                raise TypeError(
                    f"assertShapeEqual compares numpy arrays and tensors, got {type(each)}"
                )
        self.assertEqual(sizes[0], sizes[1], msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Passes when an array or tensor has the dtype; lists are compared part by part."""
        if isinstance(target, list):
            for each in target:
                self.assertDTypeEqual(each, expected_dtype)
            return
        found = as_dtype(target.dtype if isinstance(target, Tensor) else self._array(target).dtype)
        self.assertEqual(found.base_dtype, as_dtype(expected_dtype).base_dtype)

    def _array(self, value: Any) -> np.ndarray[Any, Any]:
        if not isinstance(value, np.ndarray | np.generic):
            value = self.evaluate(value) if _has_tensor(value) else value
            if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
                value = value.__array__()
        if isinstance(value, np.ndarray | np.generic):
            return np.asarray(value)
        return np.array(value)

    def _same_shape(self, a: Any, b: Any, msg: str | None) -> None:
        self.assertEqual(
            a.shape,
            b.shape,
            f"Shape mismatch: expected {a.shape}, got {b.shape}. Contents: {b!r}.{_suffix(msg)}",
        )

    def _all(self, a: Any, holds: Callable[[Any], Any], what: str) -> None:
        array = self._array(a)
        holds_at = np.asarray(holds(array))
        if not np.all(holds_at):
            wrong = array[~holds_at] if holds_at.shape == array.shape else array
            raise AssertionError(
                f"{int(np.sum(~holds_at))} element(s) are not {what}: {wrong.ravel()[:10]!r}"
            )

    def _close(
        self, a: Any, b: Any, rtol: float, atol: float, path: list[str], msg: str | None
    ) -> None:
        a, b = _plain_structure(a), _plain_structure(b)
        where = "".join(path)
        place = f" at {where}" if where else ""
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            raise ValueError(
                f"Can't compare dict to non-dict, a{where} vs b{where}.{_suffix(msg, ' ')}"
            )
        if isinstance(a, Mapping):
            self.assertCountEqual(
                a.keys(), b.keys(), f"mismatched keys{place}: {a.keys()}, {b.keys()}{_suffix(msg)}"
            )
            for key in a:
                self._close(a[key], b[key], rtol, atol, [*path, f"[{key}]"], msg)
            return
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            try:
                first, second = self._array(a), self._array(b)
            except (TypeError, ValueError):
                pass  # no array can be made of it: its parts have several shapes
            else:
                if first.dtype != object and second.dtype != object:
                    self._close_arrays(first, second, rtol, atol, place, msg)
                    return
            self.assertEqual(
                len(a), len(b), f"Mismatched length{place}: {len(a)}, {len(b)}{_suffix(msg)}"
            )
            for index, (one, other) in enumerate(zip(a, b, strict=True)):
                self._close(one, other, rtol, atol, [*path, f"[{index}]"], msg)
            return
        self._close_arrays(self._array(a), self._array(b), rtol, atol, place, msg)

    def _close_arrays(
        self, a: Any, b: Any, rtol: float, atol: float, place: str, msg: str | None
    ) -> None:
        self._same_shape(a, b, msg)
        a, b = _wide(a), _wide(b)
        if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            np.testing.assert_allclose(
                a,
                b,
                rtol=rtol,
                atol=atol,
                err_msg=f"Mismatched value{place}: a is different from b "
                f"(rtol={rtol}, atol={atol}).{_suffix(msg)}",
                equal_nan=True,
            )


def _suffix(msg: str | None, before: str = "\n") -> str:
    return f"{before}{msg}" if msg else ""


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_tensor, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_tensor, value))
    return hasattr(value, "graph") or hasattr(value, "numpy")


def _plain_structure(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    if hasattr(type(value), "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in type(value).__attrs_attrs__}
    return value


def _wide(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _comparable(array: Any) -> Any:
    """Text as bytes: strings come out of a session as such, whatever went in."""
    if array.dtype.kind == "U":
        return np.char.encode(array, "utf-8").astype(object)
    if array.dtype.kind == "S":
        return array.astype(object)
    if array.dtype.kind == "O":
        flat = [x.encode("utf-8") if isinstance(x, str) else x for x in array.ravel().tolist()]
        result = np.empty(len(flat), object)
        result[:] = flat
        return result.reshape(array.shape)
    return array
