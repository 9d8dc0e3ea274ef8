"""The direction in which a metric improves: the one place that infers it from names.

The table has the common names of metrics. For an unknown name, or one whose parts contradict each
other, the direction must be given.
"""

from __future__ import annotations

import re
from typing import Final

MIN, MAX, AUTO = "min", "max", "auto"

_MORE: Final = """
    acc accuracy auc auroc aucroc roc_auc auprc pr_auc aupr precision recall f1 f2 fbeta f_beta
    f_measure r2 r_2 r_squared explained_variance map ap mrr reciprocal_rank ndcg dcg bleu rouge
    rougel chrf meteor cider iou miou jaccard dice kappa mcc matthews matthews_corrcoef
    correlation corrcoef pearson spearman kendall specificity sensitivity tpr tnr true_positive
    true_positives true_negative true_negatives hit hits hit_rate hr gini ks psnr ssim
    log_likelihood likelihood elbo exact_match success reward fraction_correct correct closeness
    similarity silhouette concordance c_index
"""
_LESS: Final = """
    loss losses log_loss logloss error errors err mse mae rmse rmsle msle mape smape mpe wape
    mase rse rae sse rss entropy cross_entropy crossentropy perplexity ppl nll
    neg_log_likelihood negative_log_likelihood deviance divergence kl kld kl_divergence distance
    residual residuals wer cer ter fid hinge huber brier brier_score hamming false_positive
    false_positives false_negative false_negatives fpr fnr fdr eer bpc bpd bits_per_char
    bits_per_dim miss_rate misclassification misclassified mistakes cost pinball quantile_loss
    regret violation violations
"""
# After one of these words a name means the opposite, or something else.
_UNCLEAR: Final = """
    neg negative minus inverse inverted one_minus non no not drop drops decrease increase gap
    difference diff delta change improvement reduction gain uncertainty variance stddev std
    baseline
"""
_PHRASES: Final = {
    tuple(re.findall(r"[a-z]+|\d+", phrase)): way
    for phrases, way in ((_MORE, MAX), (_LESS, MIN))
    for phrase in phrases.split()
}
_LONGEST: Final = max(map(len, _PHRASES))


def direction(metric: str) -> str | None:
    """Infers whether a lower (`min`) or a higher (`max`) value of a metric is better.

    Args:
        metric: Its name, such as `auc`, `val_rmse`, `top_5_accuracy`, `meanSquaredError`.

    Returns:
        `min`, `max`, or None if the name does not tell.
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()
    words = re.findall(r"[a-z]+|\d+", apart)
    found: set[str] = set()
    place = 0
    while place < len(words):
        for length in range(min(_LONGEST, len(words) - place), 0, -1):
            way = _PHRASES.get(tuple(words[place : place + length]))
            if way is not None:
                found.add(way)
                place += length
                break
        else:
            if words[place] in _UNCLEAR.split():
                return None
            place += 1
    if not found and "top" in words:
        return MAX  # top_5: the share of rows whose label is among the first five
    return found.pop() if len(found) == 1 else None


def resolve(metric: str, mode: str) -> tuple[str, str]:
    """Returns the name and direction of a metric, from `earlyStoppingMetric` and its mode.

    Args:
        metric: The name; a leading `-` means the mode `max`.
        mode: `auto`, `min` or `max`.

    Returns:
        The name without the sign, and `min` or `max`.

    Raises:
        ValueError: The direction is unknown or contradictory.
    """
    name = metric.removeprefix("-")
    if name != metric:
        if mode == MIN:
            raise ValueError(
                f"earlyStoppingMetric={metric!r} says that more is better, earlyStoppingMode="
                f"{mode!r} that less is; leave out the '-' or the mode"
            )
        mode = MAX
    if mode == AUTO:
        known = direction(name)
        if known is None:
            raise ValueError(
                f"earlyStoppingMetric={name!r}: its name does not say whether more or less of it "
                "is better. Set earlyStoppingMode='max' (more is better, as of an "
                "accuracy) or earlyStoppingMode='min' (less is better, as of an error)"
            )
        mode = known
    return name, mode
