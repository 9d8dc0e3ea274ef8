"""Machine code that transforms filters for Winograd convolutions; see `winograd_ir`.

Transformed filters are stored by product and panel: [36, panels, channels, panel].
"""

from __future__ import annotations

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.winograd.winograd_ir import Field, Form, Transforms


def filters_text(form: Form, is_turned: bool) -> str:
    """Transforms filters; the loop is over vectors of channels.

    The arrays are the filters and the transformed ones.

    Args:
        form: Compile-time parameters.
        is_turned: See `FilterTransforms`.
    """
    return _Filters(form, is_turned).text()


class FilterTransforms(Transforms):
    """Emits the transform of filters.

    Args:
        form: Compile-time parameters.
        is_turned: Whether filters are mirrored and their outputs are the channels here, which are
            therefore contiguous: squares of as many channels as outputs are transposed in
            registers.
    """

    def __init__(self, form: Form, is_turned: bool) -> None:
        super().__init__(form)
        self._is_turned = is_turned
        if is_turned:
            self._square = self._code.variable(f"[{form.taps**2 * form.lanes**2} x float]")

    def _take_filters(
        self, filters: str, channels: tuple[Value, Value], output: Value, target: str
    ) -> None:
        """Transforms the filters of one vector of outputs.

        Args:
            filters: Address of the filters.
            channels: The first channel, and their number.
            output: The first output.
            target: Address for the first channel; the others follow with the stride of a panel.
        """
        code, form = self._code, self._form
        first, count = channels
        if self._is_turned:
            with code.loop(0, count, form.lanes) as done:
                rest = code.smaller(form.lanes, code.subtract(count, done))
                there = self._at(target, code.multiply(done, form.panel))
                self._take_square(filters, (code.add(first, done), rest), output, there)
            return
        inside = self._vectors.first(code.subtract(self._size(Field.OUTPUTS), output))
        with code.loop(0, count) as done:
            channel = code.multiply(code.add(first, done), self._size(Field.FILTER_CHANNEL))
            line = self._at(filters, channel)

            def load(i: int, j: int) -> str:
                tap = code.multiply(self._size(Field.FILTER_TAP), i * form.taps + j)
                return self._vectors.load(self._at(line, tap), output, inside)

            done_here = self._both_ways(self._of_filter, form.taps, load)
            there = self._at(target, code.multiply(done, form.panel))
            self._spread(done_here, there, Field.RIGHT_PLANE)

    def _take_square(
        self, filters: str, channels: tuple[Value, Value], output: Value, target: str
    ) -> None:
        """As `_take_filters`, for up to a vector of channels."""
        code, size, form, vectors = self._code, self._size, self._form, self._vectors
        first, count = channels
        taps, square = form.taps**2, form.lanes**2
        here = self._at(filters, first)
        last = code.subtract(size(Field.OUTPUTS), 1)
        mask = vectors.first(count) if form.channels_rest else None
        lines = [
            code.multiply(code.smaller(code.add(output, n), last), size(Field.FILTER_OUTPUT))
            for n in range(form.lanes)
        ]
        for tap in range(taps):
            beside = self._at(here, code.multiply(size(Field.FILTER_TAP), taps - 1 - tap))
            read = [vectors.load(self._at(beside, line), 0, mask) for line in lines]
            for n, each in enumerate(self._turned(read)):
                vectors.store(each, self._square, tap * square + n * form.lanes)
        with code.loop(0, count) as channel:
            now = self._at(self._square, code.multiply(channel, form.lanes))

            def load(i: int, j: int) -> str:
                return vectors.load(now, (i * form.taps + j) * square)

            there = self._at(target, code.multiply(channel, form.panel))
            done = self._both_ways(self._of_filter, form.taps, load)
            self._spread(done, there, Field.RIGHT_PLANE)


class _Filters(FilterTransforms):
    def _write(self) -> None:
        code, size, form = self._code, self._size, self._form
        filters, out = code.arrays(2)
        first = code.multiply("%lo", form.lanes)
        last = code.smaller(code.multiply("%hi", form.lanes), size(Field.CHANNELS))
        channels = first, code.subtract(last, first)
        with code.loop(0, size(Field.PANELS)) as panel:
            depth = code.add(code.multiply(panel, size(Field.CHANNELS)), first)
            target = self._at(out, code.multiply(depth, form.panel))
            for v in range(form.vectors):
                output = code.add(code.multiply(panel, form.panel), v * form.lanes)
                there = self._at(target, v * form.lanes)
                self._take_filters(filters, channels, output, there)
