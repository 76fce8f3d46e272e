"""What is known of the signal."""
