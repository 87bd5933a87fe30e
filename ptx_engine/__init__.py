"""volta_pass package."""
