import pytest

import sparkflow as tf


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("/job:ps/replica:0/task:1/device:CPU:0", "/job:ps/replica:0/task:1/device:CPU:0"),
        ("/gpu:3", "/device:GPU:3"),
        ("cpu:0", "/device:CPU:0"),
        ("/job:w/GPU:*", "/job:w/device:GPU:*"),
        ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
        ("/device:*:*", ""),
        ("", ""),
    ],
)
def test_names_are_read_in_every_spelling(text, full):
    assert tf.DeviceSpec.from_string(text).to_string() == full


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "Unknown attribute: 'garbage' in 'garbage'"),
        ("/job:a/color:3", "Unknown attribute: 'color' in '/job:a/color:3'"),
        ("/cpu:0/gpu:0", "Cannot specify multiple device types"),
        ("/task:x", "invalid literal for int"),
    ],
)
def test_what_is_no_name_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        tf.DeviceSpec.from_string(text)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message), tf.device(text):
        pass


def test_names_merge():
    spec = tf.DeviceSpec(job="ps", task=1, device_type="gpu")
    assert spec.to_string() == "/job:ps/task:1/device:GPU:*"
    spec.merge_from(tf.DeviceSpec(task=2, device_index=3))
    assert spec == tf.DeviceSpec("ps", None, 2, "GPU", 3)
    other = spec.make_merged_spec(tf.DeviceSpec(replica=0))
    assert other.to_string() == "/job:ps/replica:0/task:2/device:GPU:3"
    assert spec.replica is None
    assert len({spec, spec.replace(), spec.replace(job="x")}) == 2
    assert repr(tf.DeviceSpec(job="a", task=0)) == "DeviceSpec(job='a', task=0)"
    spec.parse_from_string("/cpu:0")
    assert spec.to_string() == "/device:CPU:0"


def test_scopes_take_specs_and_functions():
    with tf.Graph().as_default(), tf.device(tf.DeviceSpec(job="ps", task=1)):
        assert tf.constant(1).device == "/job:ps/task:1"
        with tf.device("/cpu:0"):
            assert tf.constant(1).device == "/job:ps/task:1/device:CPU:0"
        with tf.device(lambda op: "/task:5/gpu:1" if op.type == "Const" else ""):
            assert tf.constant(1).device == "/job:ps/task:5/device:GPU:1"
            assert tf.no_op().device == "/job:ps/task:1"
