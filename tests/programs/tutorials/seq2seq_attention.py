"""Sequences are reversed by an encoder and a decoder that attends, trained and then decoded."""

import numpy as np

import sparkflow as tf

seq2seq = tf.contrib.seq2seq
VOCABULARY, LENGTH, UNITS, BATCH = 8, 4, 24, 32
GO, EOS = 0, 1
rng = np.random.RandomState(16)
tf.set_random_seed(16)


def batch():
    source = rng.randint(2, VOCABULARY, (BATCH, LENGTH))
    target = np.concatenate([source[:, ::-1], np.full((BATCH, 1), EOS)], 1)
    return source, np.concatenate([np.full((BATCH, 1), GO), target[:, :-1]], 1), target


source = tf.placeholder(tf.int32, [None, LENGTH])
decoder_in = tf.placeholder(tf.int32, [None, LENGTH + 1])
decoder_out = tf.placeholder(tf.int32, [None, LENGTH + 1])
count = tf.shape(source)[0]
lengths = tf.fill([count], LENGTH)
embedding = tf.get_variable("embedding", [VOCABULARY, UNITS])
with tf.variable_scope("encoder"):
    encoder_out, encoder_state = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(UNITS),
        tf.nn.embedding_lookup(embedding, source),
        sequence_length=lengths,
        dtype=tf.float32,
    )
cell = tf.nn.rnn_cell.GRUCell(UNITS)
projection = tf.layers.Dense(VOCABULARY, use_bias=False, name="projection")


def decode(helper_of, memory, memory_lengths, state, size, reuse, beam_width=None):
    with tf.variable_scope("decoder", reuse=reuse):
        mechanism = seq2seq.LuongAttention(UNITS, memory, memory_sequence_length=memory_lengths)
        attending = seq2seq.AttentionWrapper(cell, mechanism, attention_layer_size=UNITS)
        initial = attending.zero_state(size, tf.float32).clone(cell_state=state)
        decoder = helper_of(attending, initial)
        return seq2seq.dynamic_decode(decoder, maximum_iterations=LENGTH + 1)


training = seq2seq.TrainingHelper(
    tf.nn.embedding_lookup(embedding, decoder_in), tf.fill([count], LENGTH + 1)
)
outputs, _, _ = decode(
    lambda a, i: seq2seq.BasicDecoder(a, training, i, output_layer=projection),
    encoder_out,
    lengths,
    encoder_state,
    count,
    None,
)
loss = seq2seq.sequence_loss(
    outputs.rnn_output, decoder_out, tf.ones(tf.shape(decoder_out), tf.float32)
)
optimizer = tf.train.AdamOptimizer(0.02)
gradients, variables = zip(*optimizer.compute_gradients(loss))
clipped, _ = tf.clip_by_global_norm(gradients, 5.0)
train = optimizer.apply_gradients(zip(clipped, variables))

greedy = seq2seq.GreedyEmbeddingHelper(embedding, tf.fill([count], GO), EOS)
greedy_out, _, greedy_lengths = decode(
    lambda a, i: seq2seq.BasicDecoder(a, greedy, i, output_layer=projection),
    encoder_out,
    lengths,
    encoder_state,
    count,
    True,
)
WIDTH = 3
tiled_out = seq2seq.tile_batch(encoder_out, WIDTH)
tiled_state = seq2seq.tile_batch(encoder_state, WIDTH)
beam_out, _, _ = decode(
    lambda a, i: seq2seq.BeamSearchDecoder(
        a, embedding, tf.fill([count], GO), EOS, i, WIDTH, output_layer=projection
    ),
    tiled_out,
    seq2seq.tile_batch(lengths, WIDTH),
    tiled_state,
    count * WIDTH,
    True,
)
print(outputs.rnn_output.get_shape()[2], greedy_out.sample_id.dtype)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    losses = []
    for step in range(250):
        a, b, c = batch()
        losses.append(sess.run([train, loss], {source: a, decoder_in: b, decoder_out: c})[1])
    print("learnt", np.mean(losses[-10:]) < 0.2 < 1.5 < losses[0])
    a, _, c = batch()
    ids, ends = sess.run([greedy_out.sample_id, greedy_lengths], {source: a})
    print("greedy", np.mean(ids[:, :LENGTH] == c[:, :LENGTH]) > 0.9, ends[0])
    beams = sess.run(beam_out.predicted_ids, {source: a})
    print("beams", beams.shape[2], np.mean(beams[:, :LENGTH, 0] == c[:, :LENGTH]) > 0.9)
print([v.name for v in tf.trainable_variables()])
