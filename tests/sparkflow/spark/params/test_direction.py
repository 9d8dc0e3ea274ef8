"""Whether a metric should be minimized or maximized."""

from __future__ import annotations

import pytest

from sparkflow.spark.params.direction import MAX, MIN, direction, resolve

MORE = (
    "accuracy acc auc AUC roc_auc auroc pr_auc auc_precision_recall precision recall f1 f1_score "
    "f_beta r2 r_squared map MAP mean_average_precision average_precision_at_10 mrr ndcg@10 bleu "
    "bleu_4 rougeL top_5_accuracy top_k top5 sparse_top_k_accuracy precision_at_k recall_at_1 "
    "hit_rate iou mean_iou kappa mcc binary_accuracy categoricalAccuracy val_accuracy "
    "macro_f1 mean_per_class_accuracy pearson_correlation psnr log_likelihood true_positives "
    "auc_1 precision/positive_threshold_0.5_mean specificity sensitivity_at_specificity ssim "
    "exact_match"
)
LESS = (
    "loss mse MSE mae rmse rmsle mape log_loss logloss error error_rate mean_squared_error "
    "meanSquaredError root_mean_squared_error mean_absolute_error perplexity cross_entropy "
    "nll negative_log_likelihood kl_divergence wer cer hinge brier_score hamming_loss val_loss "
    "average_loss false_positives false_negative_rate huber deviance quantile_loss"
)
UNKNOWN = (
    "score metric x mean label/mean prediction quality neg_loss negative_accuracy accuracy_drop "
    "loss_improvement auc_gap accuracy_and_error absolute"
)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((each, MAX) for each in MORE.split()),
        *((each, MIN) for each in LESS.split()),
        *((each, None) for each in UNKNOWN.split()),
    ],
)
def test_names_that_say_it_and_names_that_do_not(name: str, way: str | None) -> None:
    assert direction(name) == way


@pytest.mark.parametrize(
    ("metric", "mode", "found"),
    [
        ("auc", "auto", ("auc", MAX)),
        ("-auc", "auto", ("auc", MAX)),
        ("-quality", "auto", ("quality", MAX)),
        ("quality", "min", ("quality", MIN)),
        ("auc", "min", ("auc", MIN)),
        ("-auc", "max", ("auc", MAX)),
    ],
)
def test_what_is_said_counts(metric: str, mode: str, found: tuple[str, str]) -> None:
    assert resolve(metric, mode) == found


@pytest.mark.parametrize(
    ("metric", "mode", "words"),
    [
        ("quality", "auto", "earlyStoppingMode='max'.*earlyStoppingMode='min'"),
        ("-auc", "min", "says that more is better"),
    ],
)
def test_what_is_not_said_is_asked_for(metric: str, mode: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        resolve(metric, mode)
