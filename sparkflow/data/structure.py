"""The element type of a dataset: a nested structure of `Component`s.

At run time an element is a flat tuple. A sparse tensor is encoded as the variant tensor of
`tf.serialize_sparse`: its three arrays; a dataset inside a dataset is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkflow.data import nest
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.ops.tensor_spec import SparseTensorSpec, TensorSpec
from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow.data.dataset import Dataset

_KINDS: dict[str, Any] = {"tensor": Tensor, "sparse": SparseTensor}
"""The class of each kind; the module of datasets registers theirs."""


@dataclass(frozen=True, slots=True)
class Component:
    """One leaf of an element.

    Attributes:
        dtype: Its element type.
        shape: Its static shape.
        kind: `tensor`, `sparse` or `dataset`.
        inner: The structure of a dataset's elements.
    """

    dtype: DType
    shape: Shape
    kind: str = "tensor"
    inner: Any = None

    @property
    def flat_dtype(self) -> DType:
        """The dtype of its encoding."""
        return dtypes.variant if self.kind == "sparse" else self.dtype

    @property
    def flat_shape(self) -> Shape:
        """The shape of its encoding."""
        return None if self.kind == "sparse" else self.shape

    def with_shape(self, shape: Shape) -> Component:
        """Returns the component with another shape."""
        return replace(self, shape=shape)

    def to_flat(self, value: Any) -> Tensor:
        """Returns the encoding of a value."""
        if self.kind == "dataset":
            variant: Tensor = value._variant_tensor
            return variant
        if self.kind == "sparse":
            parts = (value.indices, value.values, value.dense_shape)
            return output_of("SerializeSparse", *parts, out_type=dtypes.variant)
        assert isinstance(value, Tensor)
        return value

    def from_flat(self, tensor: Tensor) -> Any:
        """Returns the value of an encoding."""
        if self.kind == "dataset":
            return _KINDS["dataset"](tensor, self.inner)
        if self.kind == "sparse":
            parts = apply_op("DeserializeSparse", tensor, dtype=self.dtype)
            indices, values, dense_shape = parts
            rank = None if self.shape is None else len(self.shape)
            indices.set_shape([None, rank])
            dense_shape.set_shape([rank])
            sparse = SparseTensor(indices, values, dense_shape)
            sparse.set_shape(TensorShape(self.shape))
            return sparse
        return tensor


def register_dataset_class(kind: type[Dataset]) -> None:
    """Registers the class of datasets inside datasets."""
    _KINDS["dataset"] = kind


def dataset_class() -> type[Dataset]:
    """Returns `tf.data.Dataset`, which its module registers."""
    kind: type[Dataset] = _KINDS["dataset"]
    return kind


def class_of(component: Component) -> Any:
    """The class of its values: `Tensor`, `SparseTensor` or `Dataset`."""
    return _KINDS[component.kind]


def spec_of(component: Component) -> Any:
    """Returns its spec for `Dataset.element_spec`."""
    if component.kind == "dataset":
        return nest.mapped(spec_of, component.inner)
    spec = SparseTensorSpec if component.kind == "sparse" else TensorSpec
    return spec(TensorShape(component.shape), component.dtype)


def of_spec(spec: Any) -> Component:
    """Returns the component that a `TensorSpec` or `SparseTensorSpec` describes.

    Raises:
        TypeError: It is another spec.
    """
    for kind, known in (("tensor", TensorSpec), ("sparse", SparseTensorSpec)):
        if isinstance(spec, known):
            return Component(spec.dtype.base, raw_shape(spec.shape), kind)
    raise TypeError(f"Each leaf of a signature must be a TensorSpec, got {spec!r}")


def types(structure: Any) -> Any:
    """The nested structure of dtypes; a nested dataset counts as its elements."""
    return nest.mapped(lambda c: types(c.inner) if c.kind == "dataset" else c.dtype, structure)


def static_shapes(structure: Any) -> Any:
    """The nested structure of shapes; a nested dataset counts as its elements."""
    return nest.mapped(
        lambda c: static_shapes(c.inner) if c.kind == "dataset" else TensorShape(c.shape), structure
    )


def classes(structure: Any) -> Any:
    """The nested structure of classes."""
    return nest.mapped(class_of, structure)


def attrs(structure: Any, types_name: str = "output_types") -> dict[str, Any]:
    """The attributes by which nodes tell the flat components."""
    flat = nest.flatten(structure)
    return {
        types_name: [component.flat_dtype for component in flat],
        "output_shapes": [component.flat_shape for component in flat],
    }


def from_legacy(output_types: Any, output_shapes: Any = None, output_classes: Any = None) -> Any:
    """The structure described by three nested structures, as iterators are.

    Raises:
        TypeError, ValueError: Their shapes do not fit.
    """
    kinds = {Tensor: "tensor", SparseTensor: "sparse"}
    wanted = nest.mapped(lambda each: dtypes.as_dtype(each).base, output_types)
    count = len(nest.flatten(wanted))
    known: Sequence[Any] = [None] * count
    if output_shapes is not None:
        known = nest.flatten_up_to(wanted, output_shapes)
    found: Sequence[Any] = [Tensor] * count
    if output_classes is not None:
        found = nest.flatten_up_to(wanted, output_classes)
    triples = zip(nest.flatten(wanted), known, found, strict=True)
    return nest.pack_as(
        wanted,
        [Component(dtype, raw_shape(shape), kinds[kind]) for dtype, shape, kind in triples],
    )


def raw_shape(shape: Any) -> Shape:
    """A shape in any spelling as the runtime has it."""
    found = TensorShape(shape)
    return None if found.rank is None else tuple(found.as_list())


def of_values(values: Any) -> tuple[Any, list[Tensor]]:
    """The structure of values, and what travels for them.

    Raises:
        TypeError, ValueError: A leaf that cannot become a tensor.
    """
    converted = [convert(leaf) for leaf in nest.flatten(values, _is_value)]
    components = [component_of(value) for value in converted]
    structure = _pack(values, components)
    pairs = zip(components, converted, strict=True)
    return structure, [component.to_flat(value) for component, value in pairs]


def _is_value(value: Any) -> bool:
    return isinstance(value, SparseTensorValue)


def _pack(values: Any, leaves: Sequence[Any]) -> Any:
    plain = _without_values(values)
    return nest.pack_as(plain, leaves)


def _without_values(values: Any) -> Any:
    """The structure with a placeholder for each leaf, so that no leaf is taken for a structure."""
    if not nest.is_nested(values) or _is_value(values):
        return None
    if isinstance(values, dict):
        return type(values)({key: _without_values(part) for key, part in values.items()})
    parts = [_without_values(part) for _, part in nest.children(values)]
    if hasattr(values, "_fields"):
        return type(values)(*parts)
    return tuple(parts)


def convert(value: Any) -> Any:
    """Converts a leaf to a tensor, sparse tensor or dataset.

    Raises:
        TypeError, ValueError: It cannot be converted.
    """
    if isinstance(value, SparseTensor | _KINDS["dataset"]):
        return value
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    return convert_to_tensor(value)


def component_of(value: Any) -> Component:
    """Returns the component of a converted leaf."""
    if isinstance(value, SparseTensor):
        return Component(value.dtype.base, raw_shape(value.shape), "sparse")
    if isinstance(value, _KINDS["dataset"]):
        return Component(dtypes.variant, (), "dataset", value._structure)
    assert isinstance(value, Tensor)
    return Component(value.dtype.base, value._shape)


def of_flat(structure: Any, flat: Sequence[Tensor]) -> Any:
    """Returns the nested values of a flat element."""
    pairs = zip(nest.flatten(structure), flat, strict=True)
    return nest.pack_as(structure, [component.from_flat(tensor) for component, tensor in pairs])


def batched(structure: Any, size: int | None) -> Any:
    """Returns the structure of stacked elements.

    Raises:
        TypeError: Datasets cannot be stacked.
    """
    return nest.mapped(lambda component: _batched(component, size), structure)


def _batched(component: Component, size: int | None) -> Component:
    if component.kind == "dataset":
        raise TypeError("Batching of datasets is not supported: use flat_map to batch inside them")
    return component.with_shape(shapes.concatenate((size,), component.shape))


def unbatched(structure: Any) -> Any:
    """Returns the structure of rows of elements.

    Raises:
        ValueError: A scalar has no rows; first dimensions differ.
    """
    size = None
    for component in nest.flatten(structure):
        if component.shape == ():
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        first = None if component.shape is None else component.shape[0]
        if size is not None and first is not None and first != size:
            raise ValueError(f"Dimensions {size} and {first} are not compatible")
        size = first if size is None else size
    return nest.mapped(lambda c: c.with_shape(None if c.shape is None else c.shape[1:]), structure)


def common(one: Any, other: Any) -> Any:
    """Returns the most specific structure that covers both, which have the same types."""
    pairs = zip(nest.flatten(one), nest.flatten(other), strict=True)
    return nest.pack_as(one, [a.with_shape(_common_shape(a.shape, b.shape)) for a, b in pairs])


def _common_shape(one: Shape, other: Shape) -> Shape:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def require_compatible(structure: Any, dataset: Any, what: str = "dataset") -> None:
    """Checks that an iterator with this structure can iterate over a dataset.

    Raises:
        TypeError: Types, shapes or classes are incompatible.
        ValueError: Their structures differ.
    """
    nest.require_same(structure, dataset)
    same = types(structure) == types(dataset)
    if not same:
        raise TypeError(
            f"Expected output types {types(structure)!r} but got {what} with output types "
            f"{types(dataset)!r}."
        )
    if classes(structure) != classes(dataset):
        raise TypeError(
            f"Expected output classes {classes(structure)!r} but got {what} with output classes "
            f"{classes(dataset)!r}."
        )
    pairs = zip(nest.flatten(structure), nest.flatten(dataset), strict=True)
    if not all(shapes.is_compatible(a.shape, b.shape) for a, b in pairs):
        raise TypeError(
            f"Expected output shapes compatible with {static_shapes(structure)!r} but got {what} "
            f"with output shapes {static_shapes(dataset)!r}."
        )
