"""Products of matrices and linear algebra, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class MatMulTest(tf.test.TestCase):
    def test_transposes(self):
        rng = np.random.RandomState(0)
        with self.test_session():
            for dtype in (np.float32, np.float64, np.int32, np.complex64, np.float16):
                a = (rng.rand(3, 4) * 10).astype(dtype)
                b = (rng.rand(4, 2) * 10).astype(dtype)
                tol = 1e-2 if dtype == np.float16 else 1e-5
                self.assertAllClose(a @ b, tf.matmul(a, b).eval(), rtol=tol)
                self.assertAllClose(a @ b, tf.matmul(a.T, b, transpose_a=True).eval(), rtol=tol)
                self.assertAllClose(a @ b, tf.matmul(a, b.T, transpose_b=True).eval(), rtol=tol)
            c = (rng.rand(2, 3) + 1j * rng.rand(2, 3)).astype(np.complex64)
            self.assertAllClose(c @ c.conj().T, tf.matmul(c, c, adjoint_b=True).eval(), rtol=1e-5)

    def test_batches(self):
        rng = np.random.RandomState(0)
        with self.test_session():
            a, b = rng.rand(2, 5, 3, 4), rng.rand(2, 5, 4, 2)
            self.assertAllClose(a @ b, tf.matmul(a, b).eval())
            self.assertEqual("BatchMatMulV2", tf.matmul(a, b).op.type)
            self.assertAllClose(
                np.einsum("abji,abjk->abik", a, a), tf.matmul(a, a, adjoint_a=True).eval()
            )
            self.assertAllClose(a @ b[:, :1], tf.matmul(a, b[:, :1]).eval())
            x, y = tf.constant(a), tf.constant(b[:1, :1])
            z = tf.matmul(x, y)
            self.assertLess(tf.test.compute_gradient_error(y, [1, 1, 4, 2], z, [2, 5, 3, 2]), 1e-5)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, r"Dimensions must be equal, but are 2 and 1"):
            tf.matmul(tf.zeros([3, 2]), tf.zeros([1, 3]))
        with self.assertRaisesRegex(ValueError, r"must be (at least )?rank 2"):
            tf.matmul(tf.zeros([3]), tf.zeros([3, 1]))
        with self.assertRaisesRegex(ValueError, "transpose_a.*adjoint_a"):
            tf.matmul([[1.0]], [[1.0]], transpose_a=True, adjoint_a=True)
        with self.test_session():
            p = tf.placeholder(tf.float32)
            with self.assertRaisesOpError(
                r"Matrix size-incompatible: In\[0\]: \[2,3\], In\[1\]: \[2,3\]"
            ):
                tf.matmul(p, tf.zeros([2, 3])).eval({p: np.zeros((2, 3))})

    def test_tensordot(self):
        rng = np.random.RandomState(0)
        a, b = rng.rand(2, 3, 4), rng.rand(3, 4, 5)
        with self.test_session():
            for axes in (1, 2, [[1, 2], [0, 1]], [[2], [1]], (2, 1)):
                if axes == 1:
                    self.assertAllClose(
                        np.tensordot(a, b.transpose(1, 0, 2), 1),
                        tf.tensordot(a, b.transpose(1, 0, 2), 1).eval(),
                    )
                else:
                    self.assertAllClose(np.tensordot(a, b, axes), tf.tensordot(a, b, axes).eval())
            p = tf.placeholder(tf.float64)
            self.assertAllClose(np.tensordot(a, b, 2), tf.tensordot(p, b, 2).eval({p: a}))
            with self.assertRaises(ValueError):
                tf.tensordot(a, b, [[0], [0, 1]])
            with self.assertRaises(ValueError):
                tf.tensordot(a, b, -1)
            with self.assertRaises(ValueError):
                tf.tensordot(a, b, [[5], [0]])

    def test_einsum(self):
        rng = np.random.RandomState(0)
        with self.test_session():
            a, b = rng.rand(2, 3), rng.rand(3, 4)
            for spec in ("ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk"):
                self.assertAllClose(np.einsum(spec, a, b), tf.einsum(spec, a, b).eval())
            self.assertAllClose(np.einsum("ij->ji", a), tf.einsum("ij->ji", a).eval())
            for wrong in ("ij,jk->ik",):
                with self.assertRaises(ValueError):
                    tf.einsum(wrong, a)
            with self.assertRaises(ValueError):
                tf.einsum("ij,ij", a, b)


class LinalgTest(tf.test.TestCase):
    def setUp(self):
        super().setUp()
        m = np.random.RandomState(5).rand(3, 3)
        self.spd = m @ m.T + 3 * np.eye(3)

    def test_values(self):
        m = self.spd
        with self.test_session() as sess:
            self.assertAllClose(np.linalg.cholesky(m), tf.cholesky(m).eval())
            self.assertAllClose(np.linalg.inv(m), tf.matrix_inverse(m).eval())
            self.assertAllClose(np.linalg.inv(m).T, tf.matrix_inverse(m, adjoint=True).eval())
            self.assertAllClose(np.linalg.det(m), tf.matrix_determinant(m).eval())
            self.assertAllClose(np.linalg.solve(m, m[:, :1]), tf.matrix_solve(m, m[:, :1]).eval())
            low = np.tril(m)
            self.assertAllClose(np.linalg.solve(low, m), tf.matrix_triangular_solve(low, m).eval())
            self.assertAllClose(
                np.linalg.solve(low.T, m), tf.matrix_triangular_solve(low.T, m, lower=False).eval()
            )
            self.assertAllClose(
                np.linalg.lstsq(m[:, :2], m[:, 2:], rcond=None)[0],
                tf.matrix_solve_ls(m[:, :2], m[:, 2:]).eval(),
            )
            s, u, v = sess.run(tf.svd(m))
            self.assertAllClose(m, u @ np.diag(s) @ v.T)
            e, w = sess.run(tf.self_adjoint_eig(m))
            self.assertAllClose(m @ w, w * e)
            q, r = sess.run(tf.qr(m))
            self.assertAllClose(m, q @ r)
            sign, log = sess.run(tf.linalg.slogdet(m))
            self.assertAllClose(list(np.linalg.slogdet(m)), [sign, log])
            self.assertAllClose(np.log(np.linalg.det(m)), tf.linalg.logdet(m).eval())
            self.assertAllClose(np.trace(m), tf.trace(m).eval())

    def test_errors(self):
        with self.test_session():
            with self.assertRaises(ValueError):
                tf.cholesky(tf.zeros([2, 3]))
            with self.assertRaises(ValueError):
                tf.matrix_inverse([1.0, 2.0])
            with self.assertRaisesOpError("not invertible"):
                tf.matrix_inverse(np.zeros((2, 2))).eval()
            with self.assertRaisesOpError("not invertible"):
                tf.matrix_solve(np.zeros((2, 2)), np.ones((2, 1))).eval()
            with self.assertRaisesOpError(
                "Cholesky decomposition was not successful. The input might not be valid."
            ):
                tf.cholesky(-np.eye(2)).eval()

    def test_gradients(self):
        with self.test_session():
            m = self.spd
            x = tf.constant(m)
            for y in (
                tf.matrix_inverse(x),
                tf.matrix_determinant(x),
                tf.matrix_solve(x, m[:, :2]),
                tf.linalg.logdet((x + tf.matrix_transpose(x)) / 2),
                tf.qr(x)[1],
            ):
                self.assertLess(
                    tf.test.compute_gradient_error(
                        x, [3, 3], y, y.get_shape().as_list(), x_init_value=m, delta=1e-5
                    ),
                    1e-4,
                )
            sym = (x + tf.matrix_transpose(x)) / 2
            for y in (
                tf.cholesky(sym),
                tf.self_adjoint_eigvals(sym),
                tf.svd(sym, compute_uv=False),
            ):
                self.assertLess(
                    tf.test.compute_gradient_error(
                        x, [3, 3], y, y.get_shape().as_list(), x_init_value=m, delta=1e-5
                    ),
                    1e-4,
                )

    def test_diagonals(self):
        with self.test_session():
            self.assertAllEqual(np.diag([1, 2]), tf.diag([1, 2]).eval())
            self.assertAllEqual([1, 4], tf.diag_part([[1, 2], [3, 4]]).eval())
            self.assertAllEqual(
                [np.diag([1, 2]), np.diag([3, 4])], tf.matrix_diag([[1, 2], [3, 4]]).eval()
            )
            self.assertAllEqual([1, 5], tf.matrix_diag_part([[1, 2, 3], [4, 5, 6]]).eval())
            self.assertAllEqual(
                [[9, 2], [3, 8]], tf.matrix_set_diag([[1, 2], [3, 4]], [9, 8]).eval()
            )
            self.assertAllEqual(
                [[1, 2, 0], [4, 5, 6], [0, 8, 9]],
                tf.matrix_band_part(np.arange(1, 10).reshape(3, 3), 1, 1).eval(),
            )
            self.assertAllEqual(np.eye(2, 3), tf.eye(2, num_columns=3).eval())
            self.assertEqual((4, 2, 2), tf.eye(2, batch_shape=[4]).eval().shape)
            self.assertAllEqual(
                np.cross([1, 2, 3], [4, 5, 6]), tf.cross([1, 2, 3], [4, 5, 6]).eval()
            )
            with self.assertRaises(ValueError):
                tf.cross([1, 2], [3, 4])
            with self.assertRaises(ValueError):
                tf.diag_part([1, 2])

    def test_norm(self):
        x = np.array([[3.0, -4.0], [0.0, 12.0]])
        with self.test_session():
            self.assertAllClose(13, tf.norm(x).eval())
            self.assertAllClose([5, 12], tf.norm(x, axis=1).eval())
            self.assertAllClose([3, 16], tf.norm(x, ord=1, axis=0).eval())
            self.assertAllClose(12, tf.norm(x, ord=np.inf).eval())
            self.assertAllClose([[5], [12]], tf.norm(x, axis=-1, keep_dims=True).eval())
            with self.assertRaisesRegex(ValueError, "'ord' must be a supported"):
                tf.norm(x, ord="fro_wrong")
            with self.assertRaisesRegex(
                ValueError, "'axis' must be None, an integer, or a tuple of 2"
            ):
                tf.norm(x, axis=[0, 1, 2])


if __name__ == "__main__":
    tf.test.main()
