"""Rows of one segment combined: sums, means, products and extremes."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "SegmentSum",
        "segment_sum math.segment_sum",
        "data, segment_ids",
        "Sums of the rows with the same id; the ids are sorted.",
    ),
    Row(
        "SegmentMean",
        "segment_mean math.segment_mean",
        "data, segment_ids",
        "Means of the rows with the same id; the ids are sorted.",
    ),
    Row(
        "SegmentProd",
        "segment_prod math.segment_prod",
        "data, segment_ids",
        "Products of the rows with the same id; the ids are sorted.",
    ),
    Row(
        "SegmentMax",
        "segment_max math.segment_max",
        "data, segment_ids",
        "Largest elements of the rows with the same id; the ids are sorted.",
    ),
    Row(
        "SegmentMin",
        "segment_min math.segment_min",
        "data, segment_ids",
        "Smallest elements of the rows with the same id; the ids are sorted.",
    ),
    Row(
        "UnsortedSegmentSum",
        "unsorted_segment_sum math.unsorted_segment_sum",
        "data, segment_ids, num_segments",
        "Sums of the slices of one id: [num_segments, ...]; negative ids are left out.",
    ),
    Row(
        "UnsortedSegmentProd",
        "unsorted_segment_prod math.unsorted_segment_prod",
        "data, segment_ids, num_segments",
        "Products of the slices of one id: [num_segments, ...]; negative ids are left out.",
    ),
    Row(
        "UnsortedSegmentMax",
        "unsorted_segment_max math.unsorted_segment_max",
        "data, segment_ids, num_segments",
        (
            "Largest elements of the slices of one id: [num_segments, ...]; negative ids are "
            "left out."
        ),
    ),
    Row(
        "UnsortedSegmentMin",
        "unsorted_segment_min math.unsorted_segment_min",
        "data, segment_ids, num_segments",
        (
            "Smallest elements of the slices of one id: [num_segments, ...]; negative ids are "
            "left out."
        ),
    ),
)
