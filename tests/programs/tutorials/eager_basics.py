"""The eager guides: tensors as values, GradientTape regression, custom layers, gradients."""

import numpy as np

import sparkflow as tf

tf.enable_eager_execution()
tfe = tf.contrib.eager

print(tf.executing_eagerly())
x = [[2.0]]
m = tf.matmul(x, x)
print(f"hello, {m}")
a = tf.constant([[1, 2], [3, 4]])
b = tf.add(a, 1)
print(a * b, np.multiply(a, b).tolist(), a.numpy().tolist())


def fizzbuzz(max_num):
    counter = tf.constant(0)
    words = []
    max_num = tf.convert_to_tensor(max_num)
    for num in range(1, max_num.numpy() + 1):
        num = tf.constant(num)
        if int(num % 3) == 0 and int(num % 5) == 0:
            words.append("FizzBuzz")
        elif int(num % 3) == 0:
            words.append("Fizz")
        elif int(num % 5) == 0:
            words.append("Buzz")
        else:
            words.append(str(num.numpy()))
        counter += 1
    return " ".join(words)


print(fizzbuzz(15))
w = tf.Variable([[1.0]])
with tf.GradientTape() as tape:
    loss = w * w
print(tape.gradient(loss, w))

training_inputs = tf.constant(np.random.RandomState(0).randn(200), tf.float32)
noise = tf.constant(np.random.RandomState(1).randn(200), tf.float32)
training_outputs = training_inputs * 3 + 2 + noise


class Model:
    def __init__(self):
        self.W = tf.Variable(5.0, name="weight")
        self.B = tf.Variable(10.0, name="bias")

    def predict(self, inputs):
        return inputs * self.W + self.B


def loss_of(model, inputs, targets):
    error = model.predict(inputs) - targets
    return tf.reduce_mean(tf.square(error))


def grad(model, inputs, targets):
    with tf.GradientTape() as tape:
        loss_value = loss_of(model, inputs, targets)
    return tape.gradient(loss_value, [model.W, model.B])


model = Model()
optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.01)
print(f"Initial loss: {loss_of(model, training_inputs, training_outputs):.3f}")
for i in range(300):
    grads = grad(model, training_inputs, training_outputs)
    optimizer.apply_gradients(
        zip(grads, [model.W, model.B]), global_step=tf.train.get_or_create_global_step()
    )
print(f"Final loss: {loss_of(model, training_inputs, training_outputs):.3f}")
print(f"W = {model.W.numpy():.4f}, B = {model.B.numpy():.4f}")

v = tf.Variable(2.0)
with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        cube = v * v * v
    first = inner.gradient(cube, v)
print(first.numpy(), outer.gradient(first, v).numpy())
c = tf.constant(3.0)
with tf.GradientTape(persistent=True) as t:
    t.watch(c)
    y = c * c
    z = y * y
print(t.gradient(z, c).numpy(), t.gradient(y, c).numpy())
del t


def square(x):
    return tf.multiply(x, x)


grad_of = tfe.gradients_function(square)
print(
    square(3.0).numpy(), grad_of(3.0)[0].numpy(), tfe.gradients_function(grad_of)(3.0) is not None
)
layer = tf.layers.Dense(3, kernel_initializer=tf.ones_initializer())
print(layer(tf.ones([2, 2])).numpy().tolist(), [u.shape for u in layer.variables])
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3, 4]).map(tf.square).batch(2)
for item in dataset:
    print(item.numpy())
s = tf.constant("a b")
print(
    tf.string_split([s]).values.numpy(),
    tf.shape(a).numpy(),
    a[0, 1].numpy(),
    bool(tf.reduce_all(a > 0)),
)
try:
    tf.matmul(a, tf.constant([[1, 2, 3]]))
except tf.errors.InvalidArgumentError:
    print("InvalidArgumentError")
