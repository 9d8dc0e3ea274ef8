"""Images, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class ImageTest(tf.test.TestCase):
    def test_draw_bounding_boxes(self):
        with self.test_session():
            got = tf.image.draw_bounding_boxes(
                np.zeros((1, 5, 5, 3), np.float32), [[[0.0, 0.0, 1.0, 1.0]]]
            ).eval()
            self.assertTrue((got[0, 0] == got[0, 4]).all())
            self.assertTrue((got[0, 1:4, 1:4] == 0).all())
            self.assertTrue(got[0, 0].any())

    def test_sample_distorted_bounding_box(self):
        with self.test_session() as sess:
            ops = tf.image.sample_distorted_bounding_box(
                [50, 40, 3],
                [[[0.0, 0.0, 0.5, 0.5]]],
                seed=1,
                min_object_covered=0.5,
                area_range=(0.3, 0.9),
            )
            for _ in range(10):
                begin, size, box = sess.run(ops)
                self.assertTrue((begin + size <= [50, 40, size[2]])[:2].all())
                self.assertAllClose(
                    [
                        begin[0] / 50,
                        begin[1] / 40,
                        (begin[0] + size[0]) / 50,
                        (begin[1] + size[1]) / 40,
                    ],
                    box[0, 0],
                )
                self.assertTrue(0.25 < size[0] * size[1] / 2000 < 0.95)

    def test_extract_glimpse(self):
        x = np.arange(25, dtype=np.float32).reshape(1, 5, 5, 1)
        with self.test_session():
            got = tf.image.extract_glimpse(x, [3, 3], [[0.0, 0.0]]).eval()
            self.assertAllEqual(x[:, 1:4, 1:4], got)
            self.assertEqual(
                [1, 3, 3, 1],
                tf.image.extract_glimpse(x, [3, 3], [[0.0, 0.0]]).get_shape().as_list(),
            )

    def test_suppression(self):
        boxes = np.array(
            [
                [0, 0, 1, 1],
                [0, 0.1, 1, 1.1],
                [0, -0.1, 1, 0.9],
                [0, 10, 1, 11],
                [0, 10.1, 1, 11.1],
                [0, 100, 1, 101],
            ],
            np.float32,
        )
        scores = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)
        with self.test_session() as sess:
            self.assertAllEqual(
                [3, 0, 5], tf.image.non_max_suppression(boxes, scores, 3, 0.5).eval()
            )
            chosen, kept = sess.run(
                tf.image.non_max_suppression_with_scores(boxes, scores, 6, 1.0, 0.0, 0.5)
            )
            self.assertAllEqual([3, 0, 1, 5, 4, 2], chosen)
            self.assertAllClose([0.95, 0.9, 0.384, 0.3, 0.256, 0.197], kept, atol=1e-2)
            b, s, c, n = sess.run(
                tf.image.combined_non_max_suppression(
                    boxes[None, :, None] / 200, scores[None, :, None], 10, 3, 0.5
                )
            )
            self.assertAllClose([[0.95, 0.9, 0.3]], s)
            self.assertEqual((1, 3, 4), b.shape)
            self.assertAllEqual([3], n)
            self.assertAllEqual([[0, 0, 0]], c)

    def test_jpeg(self):
        x = np.random.RandomState(0).randint(0, 256, (20, 18, 3)).astype(np.uint8)
        with self.test_session():
            contents = tf.image.encode_jpeg(x, quality=95).eval()
            whole = tf.image.decode_jpeg(contents).eval()
            self.assertAllEqual(
                whole[3:13, 2:10], tf.image.decode_and_crop_jpeg(contents, [3, 2, 10, 8]).eval()
            )
            self.assertEqual((20, 18, 3), tf.image.adjust_jpeg_quality(x, 50).eval().shape)
            self.assertEqual(tf.uint8, tf.image.random_jpeg_quality(tf.constant(x), 40, 60).dtype)
            with self.assertRaises(ValueError):
                tf.image.random_jpeg_quality(x, 60, 40)

    def test_ssim_multiscale(self):
        x = np.random.RandomState(0).rand(1, 180, 180, 1).astype(np.float32)
        with self.test_session():
            self.assertAllClose([1.0], tf.image.ssim_multiscale(x, x, 1.0).eval())
            self.assertLess(tf.image.ssim_multiscale(x, 1 - x, 1.0).eval()[0], 0.5)

    def test_basics(self):
        x = np.random.RandomState(0).randint(0, 256, (4, 6, 3)).astype(np.uint8)
        with self.test_session():
            self.assertAllEqual(x[:, ::-1], tf.image.flip_left_right(x).eval())
            self.assertAllEqual(x[::-1], tf.image.flip_up_down(x).eval())
            self.assertAllEqual(np.rot90(x), tf.image.rot90(x).eval())
            self.assertAllEqual(x.transpose(1, 0, 2), tf.image.transpose_image(x).eval())
            self.assertAllEqual(x[1:3, 1:5], tf.image.crop_to_bounding_box(x, 1, 1, 2, 4).eval())
            self.assertEqual(
                (8, 8, 3), tf.image.resize_image_with_crop_or_pad(x, 8, 8).eval().shape
            )
            self.assertEqual([2, 3, 3], tf.image.resize_images(x, [2, 3]).get_shape().as_list())
            self.assertAllEqual(x, tf.image.decode_png(tf.image.encode_png(x)).eval())
            y = tf.image.per_image_standardization(x).eval()
            self.assertAllClose([0, 1], [y.mean(), y.std()], atol=1e-4)
            with self.assertRaisesRegex(
                ValueError, "must be three-dimensional|either 3 or 4 dimensions|at least 3"
            ):
                tf.image.flip_left_right(np.zeros((3, 3)))
            self.assertAllClose(x / 255.0, tf.image.convert_image_dtype(x, tf.float32).eval())


if __name__ == "__main__":
    tf.test.main()
