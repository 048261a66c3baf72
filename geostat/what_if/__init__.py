"""What-if studies of the bounds."""
