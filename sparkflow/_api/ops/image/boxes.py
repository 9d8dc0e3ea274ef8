"""Choosing boxes that do not overlap."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "NonMaxSuppressionV3",
        "image.non_max_suppression",
        'boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf")',
        "The numbers of boxes by falling score that overlap none chosen before.",
        arguments={
            "boxes": "[boxes, 4] float32: y1, x1, y2, x2.",
            "scores": "[boxes] float32.",
            "max_output_size": "The most boxes to choose.",
            "iou_threshold": "Boxes overlap whose intersection is a larger share of their union.",
            "score_threshold": "Boxes with at most this score are not chosen.",
        },
        returns="[chosen] int32.",
        node="non_max_suppression",
    ),
    Row(
        "NonMaxSuppressionWithOverlaps",
        "image.non_max_suppression_overlaps",
        ('overlaps, scores, max_output_size, overlap_threshold=0.5, score_threshold=float("-inf")'),
        "As `non_max_suppression`, with the overlaps [boxes, boxes] given.",
        node="non_max_suppression_overlaps",
    ),
)
