from sparkflow.python.client import device_lib


def test_local_devices_start_with_the_cpu():
    first, *others = device_lib.list_local_devices()
    assert (first.name, first.device_type, first.memory_limit) == ("/device:CPU:0", "CPU", 1 << 28)
    assert first.incarnation
    assert all(device.device_type == "GPU" for device in others)
