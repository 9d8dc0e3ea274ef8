from sparkflow.session_defaults import Defaults, default_config, defaults
from sparkflow_runtime.protos.config_pb2 import ConfigProto


def test_a_session_gets_a_copy_of_the_defaults():
    before = ConfigProto()
    before.CopyFrom(defaults.config)
    try:
        defaults.config.allow_soft_placement = True
        found = default_config()
        assert found.allow_soft_placement
        found.device_count["CPU"] = 7
        assert not defaults.config.device_count
    finally:
        defaults.config.CopyFrom(before)


def test_no_message_is_made_before_something_is_set():
    fresh = Defaults()
    assert not fresh.is_set
    fresh.config.allow_soft_placement = True
    assert fresh.is_set
    assert fresh.config.allow_soft_placement
