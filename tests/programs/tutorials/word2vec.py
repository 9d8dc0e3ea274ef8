"""Skip-gram word vectors with nce_loss and similarity of normalised embeddings."""

import collections
import random

import numpy as np

import sparkflow as tf

random.seed(0)
np.random.seed(0)
topics = [["cat", "dog", "pet", "fur"], ["car", "road", "wheel", "drive"], ["sun", "sky", "rain"]]
words = []
for _ in range(500):
    words += random.choices(random.choice(topics), k=6)
count = [["UNK", -1]]
count.extend(collections.Counter(words).most_common(20))
dictionary = {word: i for i, (word, _) in enumerate(count)}
data = [dictionary[w] for w in words]
vocabulary_size, embedding_size, num_sampled = len(dictionary), 8, 4
pairs = [
    (data[i], data[j])
    for i in range(len(data))
    for j in range(max(0, i - 1), min(len(data), i + 2))
    if i != j
]

graph = tf.Graph()
with graph.as_default():
    tf.set_random_seed(1)
    train_inputs = tf.placeholder(tf.int32, shape=[None])
    train_labels = tf.placeholder(tf.int32, shape=[None, 1])
    valid_dataset = tf.constant([dictionary["cat"], dictionary["car"]], dtype=tf.int32)
    with tf.device("/cpu:0"):
        embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
        embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        nce_weights = tf.Variable(
            tf.truncated_normal(
                [vocabulary_size, embedding_size], stddev=1.0 / np.sqrt(embedding_size)
            )
        )
        nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=nce_weights,
            biases=nce_biases,
            labels=train_labels,
            inputs=embed,
            num_sampled=num_sampled,
            num_classes=vocabulary_size,
        )
    )
    tf.summary.scalar("loss", loss)
    optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keep_dims=True))
    normalized_embeddings = embeddings / norm
    valid_embeddings = tf.nn.embedding_lookup(normalized_embeddings, valid_dataset)
    similarity = tf.matmul(valid_embeddings, normalized_embeddings, transpose_b=True)
    init = tf.global_variables_initializer()

reverse = {i: w for w, i in dictionary.items()}
with tf.Session(graph=graph) as session:
    init.run()
    average, batch = [], 128
    for step in range(400):
        chosen = random.sample(pairs, batch)
        feed = {
            train_inputs: [a for a, _ in chosen],
            train_labels: [[b] for _, b in chosen],
        }
        _, loss_val = session.run([optimizer, loss], feed_dict=feed)
        average.append(loss_val)
    print("learnt", np.mean(average[-50:]) < 0.7 * np.mean(average[:10]))
    sim = similarity.eval()
    for i, word in enumerate(["cat", "car"]):
        nearest = [reverse[k] for k in (-sim[i, :]).argsort() if k][1:4]
        print(word, sorted(nearest))
    final = normalized_embeddings.eval()
    print(np.allclose((final**2).sum(1), 1, atol=1e-5))
