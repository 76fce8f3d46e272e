"""What tests of the command share."""


def assert_one_line_error(result, *words):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("fastquad: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
