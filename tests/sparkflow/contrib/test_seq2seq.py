import itertools

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import crf, legacy_seq2seq, rnn, seq2seq

WORDS, SIZE, UNITS, BATCH = 7, 5, 6, 2
RANDOM = np.random.RandomState(0)
MEMORY = RANDOM.rand(BATCH, 3, 8).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def attending(mechanism, **kwargs):
    cell = seq2seq.AttentionWrapper(
        rnn.BasicLSTMCell(UNITS),
        mechanism(UNITS, tf.constant(MEMORY), memory_sequence_length=[2, 3]),
        attention_layer_size=4,
        alignment_history=True,
        **kwargs,
    )
    return cell, cell.zero_state(BATCH, tf.float32)


@pytest.mark.parametrize("mechanism", [seq2seq.BahdanauAttention, seq2seq.LuongAttention])
def test_training_with_attention(mechanism):
    cell, state = attending(mechanism)
    inputs = tf.constant(RANDOM.randn(BATCH, 4, SIZE).astype(np.float32))
    helper = seq2seq.TrainingHelper(inputs, [3, 4])
    decoder = seq2seq.BasicDecoder(cell, helper, state, tf.layers.Dense(WORDS, use_bias=False))
    outputs, last, lengths = seq2seq.dynamic_decode(decoder, impute_finished=True)
    assert outputs.rnn_output.shape.as_list() == [BATCH, None, WORDS]
    targets, ones = np.ones((BATCH, 4), int), np.ones((BATCH, 4), "f")
    loss = seq2seq.sequence_loss(outputs.rnn_output, targets, ones)
    assert None not in tf.gradients(loss, tf.trainable_variables())
    logits, ids, weights, sizes = run(
        outputs.rnn_output, outputs.sample_id, last.alignment_history.stack(), lengths
    )
    assert sizes.tolist() == [3, 4]
    assert (logits[0, 3] == 0).all()
    np.testing.assert_array_equal(ids, logits.argmax(-1))
    # A finished sequence's weights stay in the history; the others add up to 1 within its length.
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert (weights[:, 0, 2] == 0).all()


def test_names_of_variables_are_those_of_tensorflow():
    cell, state = attending(seq2seq.BahdanauAttention)
    helper = seq2seq.TrainingHelper(tf.zeros([BATCH, 4, SIZE]), [3, 4])
    seq2seq.dynamic_decode(seq2seq.BasicDecoder(cell, helper, state))
    assert [each.op.name for each in tf.trainable_variables()] == [
        "memory_layer/kernel",
        "decoder/attention_wrapper/basic_lstm_cell/kernel",
        "decoder/attention_wrapper/basic_lstm_cell/bias",
        "decoder/attention_wrapper/bahdanau_attention/query_layer/kernel",
        "decoder/attention_wrapper/bahdanau_attention/attention_v",
        "decoder/attention_wrapper/attention_layer/kernel",
    ]


def test_greedy_decoding_feeds_its_own_words_and_stops():
    table = tf.get_variable("table", [WORDS, SIZE])
    cell = rnn.GRUCell(UNITS)
    out = tf.layers.Dense(WORDS, kernel_initializer=tf.random_normal_initializer(seed=2))
    state = tf.constant(RANDOM.randn(BATCH, UNITS).astype(np.float32))
    helper = seq2seq.GreedyEmbeddingHelper(table, [1] * BATCH, 2)
    decoder = seq2seq.BasicDecoder(cell, helper, state, out)
    outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
    words, wanted, h = [1] * BATCH, [], state
    with tf.variable_scope("decoder", reuse=True):
        for _ in range(5):
            y, h = cell(tf.nn.embedding_lookup(table, words), h)
            words = tf.argmax(out(y), 1, output_type=tf.int32)
            wanted.append(words)
    ids, by_hand, sizes = run(outputs.sample_id, tf.stack(wanted, 1), lengths)
    for row, expected, size in zip(ids, by_hand, sizes, strict=True):
        assert row[:size].tolist() == expected[:size].tolist()
        assert size == 5 or row[size - 1] == 2


def test_a_wide_beam_finds_the_likeliest_sequence_of_all():
    table = tf.get_variable("table", [4, SIZE], initializer=tf.random_normal_initializer(seed=1))
    cell = rnn.GRUCell(UNITS)
    out = tf.layers.Dense(4, kernel_initializer=tf.random_normal_initializer(seed=3))
    start = tf.constant(RANDOM.randn(1, UNITS).astype(np.float32))
    decoder = seq2seq.BeamSearchDecoder(cell, table, [1], 2, seq2seq.tile_batch(start, 70), 70, out)
    outputs, last, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=3)

    def log_probability(words):
        total, h, word = tf.zeros([]), start, 1
        with tf.variable_scope("decoder", reuse=True):
            for following in words:
                y, h = cell(tf.nn.embedding_lookup(table, [word]), h)
                total += tf.nn.log_softmax(out(y))[0, following]
                word = following
        return total

    every = {
        words[: words.index(2) + 1] if 2 in words else words
        for words in itertools.product(range(4), repeat=3)
    }
    every = sorted(every)
    best, scores, wanted = run(
        outputs.predicted_ids, last.log_probs, tf.stack([log_probability(w) for w in every])
    )
    order = np.argsort(-wanted)
    np.testing.assert_allclose(scores[0, :5], wanted[order[:5]], rtol=1e-4)
    words = every[order[0]]
    assert tuple(best[0, : len(words), 0]) == words


def test_gather_tree_follows_parents_and_ends():
    ids = np.array([[[1, 2]], [[3, 4]], [[5, 6]]], np.int32)
    parents = np.array([[[0, 0]], [[1, 0]], [[1, 0]]], np.int32)
    found, ended = run(
        seq2seq.gather_tree(ids, parents, [3], 9), seq2seq.gather_tree(ids, parents, [3], 4)
    )
    assert found[:, 0, 0].tolist() == [1, 4, 5]
    assert found[:, 0, 1].tolist() == [2, 3, 6]
    assert ended[:, 0, 0].tolist() == [1, 4, 4]


def test_sequence_loss_weighs_and_averages():
    logits = RANDOM.randn(2, 3, 4).astype(np.float32)
    targets, weights = np.array([[0, 1, 2], [3, 0, 1]]), np.array([[1, 1, 0], [1, 0.5, 0]], "f")
    shifted = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    cross = -np.take_along_axis(shifted, targets[..., None], -1)[..., 0] * weights
    whole, batch = run(
        seq2seq.sequence_loss(logits, targets, weights),
        seq2seq.sequence_loss(logits, targets, weights, average_across_batch=False),
    )
    assert whole == pytest.approx(cross.sum() / weights.sum(), rel=1e-5)
    np.testing.assert_allclose(batch, cross.sum(1) / weights.sum(1), rtol=1e-5)
    with pytest.raises(ValueError, match="Logits must be"):
        seq2seq.sequence_loss(logits[0], targets, weights)


@pytest.mark.parametrize("previous", [False, True, None])
@pytest.mark.parametrize(
    "name", ["embedding_rnn_seq2seq", "embedding_attention_seq2seq", "embedding_tied_rnn_seq2seq"]
)
def test_legacy_models_train(name, previous):
    steps = [tf.constant([1, 2])] * 3
    sizes = (5, 3) if "tied" in name else (5, 5, 3)
    flag = tf.constant(True) if previous is None else previous
    model = getattr(legacy_seq2seq, name)
    outputs, _ = model(steps, steps, rnn.BasicLSTMCell(4), *sizes, feed_previous=flag)
    loss = legacy_seq2seq.sequence_loss(outputs, steps, [tf.ones([2])] * 3)
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(10):
            session.run(train)
        assert session.run(loss) < first


def test_buckets_share_variables():
    steps = [tf.constant([1, 2])] * 4
    outputs, losses = legacy_seq2seq.model_with_buckets(
        steps,
        steps,
        steps,
        [tf.ones([2])] * 4,
        [(2, 2), (4, 4)],
        lambda x, y: legacy_seq2seq.embedding_rnn_seq2seq(x, y, rnn.GRUCell(4), 5, 5, 3),
    )
    assert [len(each) for each in outputs] == [2, 4]
    assert len(losses) == 2
    assert len({each.name for each in tf.trainable_variables()}) == len(tf.trainable_variables())


def test_a_random_field_against_all_sequences():
    potentials = RANDOM.randn(2, 4, 3).astype(np.float32)
    transitions = RANDOM.randn(3, 3).astype(np.float32)
    tags, lengths = RANDOM.randint(0, 3, (2, 4)), [3, 4]
    likelihood, _ = crf.crf_log_likelihood(potentials, tags, lengths, tf.constant(transitions))
    assert None not in tf.gradients(likelihood, [likelihood.op.inputs[0]])
    found, best_tags, best = run(likelihood, *crf.crf_decode(potentials, transitions, lengths))
    for row, size in enumerate(lengths):
        scores = {
            path: sum(potentials[row, t, tag] for t, tag in enumerate(path))
            + sum(transitions[a, b] for a, b in itertools.pairwise(path))
            for path in itertools.product(range(3), repeat=size)
        }
        norm = np.log(np.sum(np.exp(list(scores.values()))))
        assert found[row] == pytest.approx(scores[tuple(tags[row, :size])] - norm, rel=1e-4)
        path = max(scores, key=scores.get)
        assert tuple(best_tags[row, :size]) == path
        assert (best_tags[row, size:] == 0).all()
        assert best[row] == pytest.approx(scores[path], rel=1e-4)
        in_numpy, score = crf.viterbi_decode(potentials[row, :size], transitions)
        assert tuple(in_numpy) == path
        assert score == pytest.approx(scores[path], rel=1e-4)
