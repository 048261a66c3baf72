"""What stands under the figures."""
