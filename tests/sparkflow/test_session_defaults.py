from sparkflow.session_defaults import default_config, defaults


def test_a_session_gets_a_copy_of_the_defaults():
    before = default_config()
    try:
        defaults.config.allow_soft_placement = True
        found = default_config()
        assert found.allow_soft_placement
        found.device_count["CPU"] = 7
        assert not defaults.config.device_count
    finally:
        defaults.config.CopyFrom(before)
