"""What an answer is worth: the tests that the verdict asks, each of which tries to find another signal that fits."""
