"""What every configuration of the sweep should compute."""


def product(a, b):
    return a @ b
